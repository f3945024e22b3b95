# SPDX-License-Identifier: MIT
"""Numbers that targets.toml alone may spell, and those that stand in two places and must agree."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Iterator
from fnmatch import fnmatch

from tests.layout.tree import Tree
from toolchain import targets

# Where no such number may stand. Documents, tests, locks, recorded results and generated files (.github) may name them.
ROOMS = (
    "csrc", "src", "toolchain", "cmake", "noxfile.py", "kw", "CMakeLists.txt", "flake.nix", "nix", ".ci",
)  # fmt: skip

RECORDED = ".sha256"  # beside what they are of; `python -m toolchain record --write` makes them

# What looks like one of them even if no row has it: a number that slipped in is often a new one.
SHAPES = (
    (re.compile(r"\b(?:sm|compute|lto)_\d+[a-z]?\b"), "an architecture"),
    (re.compile(r"__CUDA_ARCH\w*"), "an architecture macro"),
    (re.compile(r"\bcu1[1-9]\d\b"), "a toolkit"),
    (re.compile(r"\bmany" + r"linux_\d\w*"), "a platform tag"),
    (re.compile(r"\b(?:__)?CUDA(?:CC)?_VER\w*|__CUDACC_VER\w*"), "a toolkit's version macro"),
    (
        re.compile(r"\b\w*(?:capability|major)(?:\s*/\s*10)?\s*(?:[<>]=?|[=!]=)\s*[1-9]\d*"),
        "a comparison with a version",
    ),
    (re.compile(r"\bg(?:cc|\+\+)-\d+"), "a compiler of one version"),
)


def _values() -> dict[str, str]:
    """Each version the table has, and what it is."""
    table = targets.load()
    values: dict[str, str] = {table.gcc.version: "the locked GCC", table.gcc.sysroot: "the locked sysroot"}
    for toolkit in table.toolkits.values():
        values[str(toolkit.release)] = f"the release of {toolkit.name}"
        values[toolkit.redist] = f"the redist release of {toolkit.name}"
        values[toolkit.driver.linux] = f"the driver of {toolkit.name}"
        for part, version in toolkit.components.items():
            values[version] = f"{part} of {toolkit.name}"
    for pin in table.tools.requirements:
        values[pin.partition("==")[2]] = f"a locked tool ({pin})"
    for target in table.targets.values():
        values[str(target.glibc)] = f"the glibc floor of {target.name}"
        values[target.platform_tag] = f"the platform tag of {target.name}"
        values[target.triple] = f"the triple of {target.name}"
        values[target.redist] = f"the redist directory of {target.name}"
        values[target.name] = "a target"
    return values


def _pattern(values: dict[str, str]) -> re.Pattern[str]:
    # Longest first, so that a component's version is not reported as its release's.
    words = "|".join(re.escape(value) for value in sorted(values, key=len, reverse=True))
    return re.compile(rf"(?<![\d.])(?:{words})(?!\w|\.\d)")


def numbers_live_in_the_table(tree: Tree) -> Iterator[str]:
    """A number typed twice is a number that will differ: one new GPU would then be an edit of many files."""
    values = _values()
    pattern = _pattern(values)
    for path in tree.under(*ROOMS):
        for place, line in tree.lines(path) if not path.endswith(RECORDED) else ():
            for shape, what in SHAPES:
                for found in shape.findall(line):
                    yield f"{place}: {found!r} is {what}; targets.toml alone spells those"
            for found in pattern.findall(line):
                yield f"{place}: {found!r} is {values[found]}; targets.toml alone spells it"


_CONSTANT = re.compile(r"^(?:inline )?constexpr \w+ (k\w+) = ((?:[^;{]|int64_t\{\w+\})+);", re.MULTILINE)
_SHARED = re.compile(r"^// As in (csrc/ops/.*)\n((?:(?!// ).+\n)*)", re.MULTILINE)
_OPERATORS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.floordiv,
    ast.LShift: operator.lshift, ast.RShift: operator.rshift,
}  # fmt: skip


def _number(expression: str, known: dict[str, str]) -> int | None:
    """Of an expression of whole numbers and of constants that stand in `known`; None of any other."""

    def value(node: ast.expr) -> int:
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        if isinstance(node, ast.Name):
            return value(parsed(known[node.id]))
        if isinstance(node, ast.BinOp):
            return int(_OPERATORS[type(node.op)](value(node.left), value(node.right)))
        raise KeyError(ast.dump(node))

    def parsed(text: str) -> ast.expr:
        return ast.parse(re.sub(r"int64_t\{(\w+)\}|\b(\d\w*?)u\b", r"\1\2", text), mode="eval").body

    try:
        return value(parsed(expression))
    except (KeyError, SyntaxError):
        return None


def launchers_and_kernels_agree(tree: Tree) -> Iterator[str]:
    """A launcher plans with numbers of its kernels that no header of both has; one changed alone gives wrong launches."""
    constants_of = {path: dict(_CONSTANT.findall(tree.text(path))) for path in tree.under("csrc/ops", "csrc/device")}
    kernels = {path: of for path, of in constants_of.items() if not re.match(r"csrc/ops/\w+/(host|cpu|api)/", path)}
    for path, own in constants_of.items():
        if path in kernels:
            continue
        family = "/".join(path.split("/")[:3])
        of_kernels = {kernel: of for kernel, of in kernels.items() if kernel.startswith(f"{family}/")}
        every = {name: text for of in of_kernels.values() for name, text in of.items()}
        for where, block in _SHARED.findall(tree.text(path)):
            patterns = re.findall(r"[\w*]+\.cuh?", where)
            for name, text in _CONSTANT.findall(block):
                for kernel, constants in of_kernels.items():
                    if name not in constants or not any(fnmatch(kernel.rpartition("/")[2], p) for p in patterns):
                        continue
                    ours, theirs = _number(text, own), _number(constants[name], every)
                    if ours is not None and theirs is not None and ours != theirs:
                        yield f"{path}: {name} is {ours}, in {kernel} it is {theirs}"
