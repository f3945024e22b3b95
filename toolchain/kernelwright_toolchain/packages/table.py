# SPDX-License-Identifier: MIT
"""One [tool.kernelwright.kernel.NAME] table, read strictly.

There is no language of its own in it: the schema is torch's, grid, block, shared and args are C expressions, returns,
require, reference and example are Python's. An expression may ask a tensor for numel(), dim(), size(i), stride(i).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernelwright_toolchain.errors import TableError

DTYPES = {
    "float64": "kDouble", "float32": "kFloat", "float16": "kHalf", "bfloat16": "kBFloat16", "int64": "kLong",
    "int32": "kInt", "int16": "kShort", "int8": "kChar", "uint8": "kByte",
}  # fmt: skip
SCALARS = {"int": "int64_t", "float": "double", "bool": "int32_t"}
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_ARGUMENT = re.compile(rf"(Tensor(?:\([a-z]!\))?|{'|'.join(SCALARS)}) ({_NAME})(?:=(.+))?")
ASKED = re.compile(rf"\b({_NAME})\.(numel|dim|size|stride)\(\s*(-?\d*)\s*\)")
_STRINGS = ("source", "entry", "schema", "grid", "block", "shared", "reference", "tolerance", "example")
_LISTS = ("dtypes", "args", "require", "free")
_KEYS = {*_STRINGS, *_LISTS, "returns"}


@dataclass(frozen=True)
class Argument:
    """Of the schema. `written`: the operator writes it in place."""

    name: str
    kind: str  # Tensor, int, float, bool
    written: bool = False


@dataclass(frozen=True)
class Kernel:
    name: str
    source: str
    entry: str
    schema: str
    arguments: tuple[Argument, ...]
    dtypes: tuple[str, ...]
    returns: Mapping[str, str]  # name -> how Python makes it
    args: tuple[str, ...]
    grid: tuple[str, ...]
    block: tuple[str, ...]
    shared: str
    require: tuple[str, ...]
    free: tuple[str, ...]  # tensors whose element type is their own
    reference: str
    tolerance: str
    example: str

    @property
    def tensors(self) -> tuple[str, ...]:
        return (*(one.name for one in self.arguments if one.kind == "Tensor"), *self.returns)

    @property
    def asked(self) -> tuple[tuple[str, str, str], ...]:
        """(tensor, question, index) of all C expressions, each once, in the order they are met."""
        text = "\n".join((*self.args, *self.grid, *self.block, self.shared))
        return tuple(dict.fromkeys(ASKED.findall(text)))

    def entry_of(self, dtype: str) -> str:
        return self.entry.replace("{dtype}", dtype)


def asked_name(tensor: str, question: str, index: str) -> str:
    """The parameter of the launcher that answers the question."""
    return "_".join(filter(None, (tensor, question, index.replace("-", "m"))))


def in_c(expression: str) -> str:
    """The expression with its questions answered by parameters."""
    return ASKED.sub(lambda match: asked_name(*match.groups()), expression)


def split(text: str) -> tuple[str, ...]:
    """At the commas that are in no brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return tuple(part.strip() for part in parts if part.strip())


class _Reader:
    def __init__(self, name: str, raw: Mapping[str, Any]) -> None:
        self.name, self.raw = name, raw
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            raise self.fail("a kernel's name is a word of a-z, 0-9 and _")
        if odd := raw.keys() - _KEYS:
            raise self.fail(f"has {min(odd)!r}; it may have {', '.join(sorted(_KEYS))}")

    def fail(self, words: str) -> TableError:
        return TableError(f"[kernel.{self.name}] {words}")

    def text(self, key: str, default: str | None = None) -> str:
        found = self.raw.get(key, default)
        if not isinstance(found, str):
            raise self.fail(f"{key} = {found!r} is not a string" if key in self.raw else f"has no {key}")
        return found

    def words(self, key: str) -> tuple[str, ...]:
        found = self.raw.get(key, [])
        if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
            raise self.fail(f"{key} = {found!r} is not a list of strings")
        return tuple(found)

    def dims(self, key: str) -> tuple[str, ...]:
        found = split(self.text(key))
        if not 1 <= len(found) <= 3:
            raise self.fail(f"{key} = {self.raw[key]!r} has {len(found)} dimensions; one to three are possible")
        return found

    def arguments(self) -> tuple[Argument, ...]:
        schema = self.text("schema")
        match = re.fullmatch(r"\((.*)\) -> (.+)", schema)
        if match is None:
            raise self.fail(f"schema = {schema!r} is not `(arguments) -> results`, as torch has it")
        found = []
        for part in split(match[1]):
            one = _ARGUMENT.fullmatch(part)
            if one is None:
                raise self.fail(
                    f"schema: argument {part!r} is not a Tensor, Tensor(a!), {', '.join(SCALARS)} and a name"
                )
            found.append(Argument(one[2], one[1].partition("(")[0], "!" in one[1]))
        if not found or found[0].kind != "Tensor":
            raise self.fail("schema: the first argument must be a Tensor: its device and element type pick the kernel")
        return tuple(found)

    def returns(self) -> Mapping[str, str]:
        found = self.raw.get("returns", {})
        if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
            raise self.fail(f"returns = {found!r} is not a table of names and Python expressions")
        said = re.fullmatch(r"\(.*\) -> (.+)", self.text("schema"))
        results = split((said[1] if said else "").removeprefix("(").removesuffix(")"))
        if any(result != "Tensor" for result in results) or len(results) != len(found):
            raise self.fail(f"schema gives {len(results)} results ({', '.join(results)}), and returns has {len(found)}")
        return found

    def kernel(self) -> Kernel:
        arguments, returns = self.arguments(), self.returns()
        dtypes = self.words("dtypes")
        if odd := [dtype for dtype in dtypes if dtype not in DTYPES]:
            raise self.fail(f"dtypes: {odd[0]!r} is none of {', '.join(DTYPES)}")
        if not dtypes or ("{dtype}" not in self.text("entry") and len(dtypes) > 1):
            raise self.fail("dtypes: name at least one, and {dtype} in entry where there are several")
        made = Kernel(
            name=self.name, source=self.text("source"), entry=self.text("entry"), schema=self.text("schema"),
            arguments=arguments, dtypes=dtypes, returns=returns,
            args=self.words("args") or (*(one.name for one in arguments), *returns),
            grid=self.dims("grid"), block=self.dims("block"), shared=self.text("shared", "0"),
            require=self.words("require"), free=self.words("free"), reference=self.text("reference", ""),
            tolerance=self.text("tolerance", ""), example=self.text("example", ""),
        )  # fmt: skip
        for tensor, question, index in made.asked:
            if tensor not in made.tensors:
                raise self.fail(
                    f"{tensor}.{question}({index}): {tensor} is no tensor of it; {', '.join(made.tensors)} are"
                )
            if (question in ("size", "stride")) != bool(index):
                raise self.fail(f"{tensor}.{question}({index}): size and stride take an index, numel and dim take none")
        return made


def read(name: str, raw: Mapping[str, Any]) -> Kernel:
    """The kernel of this table, or a TableError that names the key."""
    return _Reader(name, raw).kernel()
