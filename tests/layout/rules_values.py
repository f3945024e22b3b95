# SPDX-License-Identifier: MIT
"""Numbers that targets.toml alone may spell, and those that would stand in two places."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kernelwright_toolchain import targets
from tests.layout.tree import Tree

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
    values: dict[str, str] = {}
    for gcc in table.gcc.values():
        values |= {gcc.version: "a locked GCC", gcc.sysroot: "a locked sysroot"}
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


_CONSTANT = re.compile(r"^(?:inline )?constexpr \w+ (k\w+) = ", re.MULTILINE)
_HOST = re.compile(r"(csrc/ops/\w+/)(?:host|cpu|api)/")


def shared_numbers_are_in_geometry(tree: Tree) -> Iterator[str]:
    """A number by which a launcher plans and a kernel runs, written twice: one changed alone gives wrong launches."""
    constants = {path: set(_CONSTANT.findall(tree.text(path))) for path in tree.under("csrc/ops")}
    for path, own in constants.items():
        family = _HOST.match(path)
        if family is None:
            continue
        for other, of in constants.items():
            if other.startswith(family[1]) and not _HOST.match(other):
                for name in sorted(own & of):
                    yield f"{path}: {name} stands in {other} too; {family[1]}geometry.h is for both"
