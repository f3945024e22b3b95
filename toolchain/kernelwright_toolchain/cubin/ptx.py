# SPDX-License-Identifier: MIT
"""What a PTX file says about itself. Registers and memory are known only where the driver compiles it."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from math import prod

from kernelwright_toolchain.cubin.elf import CubinError

_TARGET = re.compile(r"^\.target\s+sm_(\d+[a-z]?)\b", re.MULTILINE)
_ENTRY = re.compile(r"\.entry\s+([A-Za-z_$%][\w$]*)\s*(\([^)]*\))?([^{;]*)")
_THREADS = re.compile(r"\.(?:max|req)ntid\s+(\d{1,9}(?:\s*,\s*\d{1,9})*)")
_SYMBOL = re.compile(r"\b[A-Za-z_$][\w$]*")
_COMMENT = re.compile(r"//[^\n]*")
_SPACES = re.compile(r",?[ \t]+")
_CONSTANT = re.compile(r"\.global \.align \d+ \.[a-z]\d+ ([A-Za-z_$][\w$]*)(?: = -?\w+)?;$")
_BEGINNING = re.compile(r"^\.version\b", re.MULTILINE)


@dataclass(frozen=True)
class Ptx:
    arch: str
    kernels: tuple[tuple[str, int], ...]  # (name, threads a block may have or 0), sorted
    symbols: frozenset[str]


def read_ptx(image: bytes) -> Ptx:
    """The facts of a PTX file, or CubinError."""
    try:
        text = image.decode("ascii")
    except UnicodeDecodeError:
        raise CubinError("a PTX file holds a byte that is not ASCII") from None
    if "\0" in text:
        raise CubinError("a PTX file holds a zero byte")
    code = _COMMENT.sub("", text)
    target = _TARGET.search(code)
    if not target:
        raise CubinError("a PTX file has no .target line")
    kernels = []
    for name, _parameters, directives in _ENTRY.findall(code):
        threads = _THREADS.search(directives)
        kernels.append((name, prod(int(n) for n in threads.group(1).split(",")) if threads else 0))
    if not kernels:
        raise CubinError("no kernel in it: is every __global__ function a template that nothing uses?")
    return Ptx(target.group(1), tuple(sorted(kernels)), frozenset(_SYMBOL.findall(code)))


def bare(image: bytes) -> bytes:
    """The same program without comments, blank lines, spaces that separate nothing, and constants that nothing reads:
    packed, it is a tenth smaller.

    What stands before the first directive stays: it names the compiler. So do lines with strings, in which // is none.
    """
    text = image.decode("ascii")
    begins = _BEGINNING.search(text)
    if begins is None:
        return image
    code = text[begins.start() :].splitlines()
    lines = [line.strip() if '"' in line else _SPACES.sub(_tight, _COMMENT.sub("", line)).strip() for line in code]
    named = Counter(_SYMBOL.findall(text))
    kept = (line for line in lines if line and not ((found := _CONSTANT.match(line)) and named[found[1]] == 1))
    return (text[: begins.start()] + "".join(f"{line}\n" for line in kept)).encode("ascii")


def _tight(spaces: re.Match[str]) -> str:
    """A comma needs no space behind it."""
    return "," if spaces.group().startswith(",") else " "
