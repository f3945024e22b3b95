# SPDX-License-Identifier: MIT
"""Reads the public headers: KW_API declarations and the constants of enums. What it does not know, it refuses.

Every type here must be one that src/kernelwright can bind; a new one is added in both places.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kernelwright_toolchain.errors import KwError
from kernelwright_toolchain.tokens import Token, split, tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

VALUES = {"int32_t", "uint32_t", "int64_t", "uint64_t", "size_t", "float", "double", "kw_status"}
POINTED_AT = VALUES | {"void", "char", "int8_t", "uint8_t", "int16_t", "uint16_t"}
SHARED = Path("csrc/include/kernelwright")
FAMILIES = Path("csrc/ops")
BASE = "base.h"
UMBRELLA = "kernelwright.h"


class AbiError(KwError):
    """A public header says something that the table of signatures cannot."""

    exit_code = 20


@dataclass(frozen=True)
class Function:
    name: str
    header: str
    returns: str
    arguments: tuple[tuple[str, str], ...]  # (name, type)


@dataclass
class Abi:
    functions: dict[str, Function] = field(default_factory=dict)
    constants: dict[str, int] = field(default_factory=dict)
    structs: dict[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)  # name: its members, (name, type)
    headers: list[str] = field(default_factory=list)


class _Reader:
    """Takes the code tokens of one header, declaration by declaration."""

    def __init__(self, header: str, code: Sequence[Token], abi: Abi) -> None:
        self.header, self.code, self.abi, self.at = header, code, abi, 0

    def fail(self, token: Token, text: str) -> AbiError:
        return AbiError(f"{self.header}:{token.line}: {text}")

    def until(self, end: str) -> list[Token]:
        """The tokens before the next `end`, which is taken too."""
        start = self.at
        while self.at < len(self.code):
            self.at += 1
            if self.code[self.at - 1].text == end:
                return list(self.code[start : self.at - 1])
        raise self.fail(self.code[start - 1], f"no {end!r} after this")

    def read(self) -> None:
        abi = self.abi
        while self.at < len(self.code):
            first = self.code[self.at]
            self.at += 1
            if first.text == "KW_API":
                function = self.function(first, self.until(";"))
                if function.name in abi.functions:
                    other = abi.functions[function.name].header
                    raise self.fail(first, f"{function.name} is declared in {other} already")
                abi.functions[function.name] = function
            elif first.text == "enum":
                self.enum(first, self.until(";"), abi.constants)
            elif first.text == "typedef" and self.code[self.at].text == "struct":
                self.struct(first)
            elif first.text == "typedef":
                self.until(";")
            else:
                raise self.fail(
                    first, f"{first.text!r} begins neither KW_API, enum nor typedef; nothing else may be here"
                )

    def struct(self, first: Token) -> None:
        name, opening = [word.text for word in [*self.code[self.at + 1 : self.at + 3], first, first]][:2]
        form = self.fail(first, "a struct is written typedef struct kw_name { type name; … } kw_name;")
        if opening != "{" or not name.startswith("kw_"):
            raise form
        self.at += 3
        members = []
        while self.at < len(self.code) and self.code[self.at].text != "}":
            words = self.until(";")
            kind, member = self.typed(words[0] if words else first, words)
            members.append((member, kind))
        if [word.text for word in self.until(";")] != ["}", name] or not members:
            raise form
        self.abi.structs[name] = tuple(members)

    def function(self, first: Token, words: list[Token]) -> Function:
        texts = [word.text for word in words]
        if texts.count("(") != 1 or texts[-1] != ")":
            raise self.fail(first, "a declaration is KW_API type name(type name, …); without function pointers")
        opening = texts.index("(")
        returns, name = self.typed(first, words[:opening])
        if not name.startswith("kw_"):
            raise self.fail(first, f"{name!r} does not begin with kw_")
        inside = words[opening + 1 : -1]
        arguments = [] if [word.text for word in inside] == ["void"] else self.arguments(first, inside)
        return Function(name, self.header, returns, tuple(arguments))

    def arguments(self, first: Token, words: list[Token]) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        part: list[Token] = []
        for word in [*words, Token("mark", ",", first.line)]:
            if word.text != ",":
                part.append(word)
                continue
            kind, name = self.typed(part[0] if part else first, part)
            if kind == "void":
                raise self.fail(part[0], f"argument {name!r} cannot be void; an empty list is written (void)")
            if name in dict(found):
                raise self.fail(part[0], f"two arguments are called {name!r}")
            found.append((name, kind))
            part = []
        return found

    def typed(self, first: Token, words: list[Token]) -> tuple[str, str]:
        """(type, name) of `[const] word *… name`."""
        texts = [word.text for word in words]
        if len(texts) < 2 or words[-1].kind != "name":
            raise self.fail(first, f"{' '.join(texts)!r} is not a type and a name")
        const, base, *stars, name = texts if texts[0] == "const" else ["", *texts]
        if any(star != "*" for star in stars) or words[-2].text == "const":
            raise self.fail(first, f"{' '.join(texts)!r} is not of the form [const] type *… name")
        pointed_at = POINTED_AT | self.abi.structs.keys()
        if base not in (pointed_at if stars else VALUES | {"void"}):
            known = ", ".join(sorted(pointed_at if stars else VALUES))
            behind = " behind *" if stars else ""
            raise self.fail(first, f"type {base!r} of {name!r} is not known{behind}; there are {known}")
        return " ".join(word for word in (const, base, "*" * len(stars)) if word), name

    def enum(self, first: Token, words: list[Token], constants: dict[str, int]) -> None:
        texts = [word.text for word in words]
        if texts[:1] != ["{"] or texts[-1:] != ["}"]:
            raise self.fail(first, "an enum is written enum { KW_NAME = number, … }; without a name")
        part: list[Token] = []
        for word in [*words[1:-1], Token("mark", ",", first.line)]:
            if word.text != ",":
                part.append(word)
            elif part:
                name, value = self.constant(part)
                if name in constants:
                    raise self.fail(part[0], f"{name} is defined already")
                constants[name] = value
                part = []

    def constant(self, part: list[Token]) -> tuple[str, int]:
        """KW_NAME = number, with the number written out: what numbers mean never depends on order."""
        texts = [word.text for word in part]
        sign = texts[2:3] == ["-"]
        digits = "".join(texts[2 + sign :])
        if not texts[0].startswith("KW_") or texts[1:2] != ["="] or not (digits.isascii() and digits.isdigit()):
            raise self.fail(part[0], f"{' '.join(texts)!r} is not KW_NAME = number")
        return texts[0], -int(digits) if sign else int(digits)


def header_directories(root: Path) -> list[Path]:
    """Where the public headers of a tree lie: those that all share, then each family's."""
    return [root / SHARED, *sorted((root / FAMILIES).glob("*/api"))]


def read_headers(*directories: Path) -> Abi:
    """The ABI of the headers of these directories, the first one's base.h first, then by name.

    AbiError names file and line. All are installed into one directory, so no two may have one name.
    """
    found = [path for directory in directories for path in directory.glob("*.h") if path.name not in {BASE, UMBRELLA}]
    if not (directories[0] / BASE).is_file():
        raise AbiError(f"{directories[0]} has no {BASE}: is this the directory of the public headers?")
    abi = Abi()
    for path in (directories[0] / BASE, *sorted(found, key=lambda path: path.name)):
        if path.name in abi.headers:
            raise AbiError(f"{path}: another family has a public header of this name; rename one")
        _, code = split(tokens(path.read_text(encoding="utf-8")))
        _Reader(path.name, code, abi).read()
        abi.headers.append(path.name)
    return abi
