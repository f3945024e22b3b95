# SPDX-License-Identifier: MIT
"""Why two builds of one image differ: which kernel, and how its machine code does."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from kernelwright_toolchain.cubin import CubinError
from kernelwright_toolchain.cubin.elf import Elf
from kernelwright_toolchain.errors import KwError
from kernelwright_toolchain.exact import sass, text

SHOWN = 12  # lines of a difference in machine code
_PREFIX = ".text."
_ENTRY = re.compile(r"^(?:\.visible )?\.entry (\w+)", re.MULTILINE)


def _clip(lines: list[str]) -> str:
    more = [f"… {len(lines) - SHOWN} more lines"] if len(lines) > SHOWN else []
    return "".join(f"\n    {line}" for line in [*lines[:SHOWN], *more])


def _machine_code(name: str, theirs: list[str] | None, ours: list[str] | None) -> str:
    if theirs is None or ours is None:
        return f"kernel {name} is only in the {'rebuilt one' if theirs is None else 'wheel'}"
    lines = [
        line for line in difflib.unified_diff(theirs, ours, n=1, lineterm="") if not line.startswith(("---", "+++"))
    ]
    gone, new = (sum(line.startswith(mark) for line in lines) for mark in "-+")
    if not lines:
        return f"kernel {name}: the same instructions with other control bits or constants"
    return f"kernel {name}: {gone} instructions of {len(theirs)} are others ({new} of {len(ours)}):{_clip(lines)}"


def _sections(image: bytes) -> dict[str, bytes]:
    elf = Elf(image)
    return {part.name: elf.content(part) for part in elf.sections}


def cubin(theirs: bytes, ours: bytes) -> Iterator[tuple[str, str]]:
    """(kind, words) of each cause, kernels by name."""
    try:
        one, other = _sections(theirs), _sections(ours)
    except CubinError as error:
        yield "image", f"it cannot be read as a cubin: {error}"
        return
    for kind, sides in text.causes(text.strings(theirs), text.strings(ours)).items():
        yield kind, text.phrase(*sides)
    differing = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
    kernels = [name.removeprefix(_PREFIX) for name in differing if name.startswith(_PREFIX)]
    if kernels:
        try:
            listings = sass.listing(theirs), sass.listing(ours)
        except KwError as error:
            yield "kernel", f"{', '.join(kernels)}; machine code cannot be shown: {error}"
            return
        for name in kernels:
            yield "kernel", _machine_code(name, listings[0].get(name), listings[1].get(name))
    elif differing:
        yield "image", f"no kernel's code, but {', '.join(differing[:5])}"
    else:
        yield "image", "the same sections in another arrangement"


def _entries(source: str) -> dict[str, str]:
    """Kernel -> its text; under no name what stands before the first."""
    starts = [*_ENTRY.finditer(source)]
    ends = [*(match.start() for match in starts), len(source)]
    found = {match[1]: source[match.start() : end] for match, end in zip(starts, ends[1:], strict=True)}
    return {"": source[: ends[0]], **found}


def ptx(theirs: bytes, ours: bytes) -> Iterator[tuple[str, str]]:
    """As above, of PTX."""
    one, other = (_entries(data.decode("utf-8", "replace")) for data in (theirs, ours))
    for name in sorted(one.keys() | other.keys()):
        if one.get(name) == other.get(name):
            continue
        lines = [*text.changed_lines(one.get(name, ""), other.get(name, ""))]
        told = text.causes((n[1:] for n in lines if n[0] == "-"), (n[1:] for n in lines if n[0] == "+"))
        if name:
            yield "kernel", f"kernel {name}: {len(lines)} lines of PTX differ:{_clip(lines)}"
        elif told:
            yield from ((kind, text.phrase(*sides)) for kind, sides in told.items())
        else:
            yield "image", f"what stands before the kernels differs:{_clip(lines)}"
