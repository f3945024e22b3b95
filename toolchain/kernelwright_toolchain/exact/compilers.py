# SPDX-License-Identifier: MIT
"""Two device compilers over the same sources: which kernels are the same machine code; what the others differ in."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kernelwright_toolchain.cubin import Cubin
from kernelwright_toolchain.cubin.elf import Elf
from kernelwright_toolchain.device.image import Image
from kernelwright_toolchain.exact import sass

_GUARD = re.compile(r"^\{?\s*(?:@!?U?P\w+ )?")
# Instructions that make a result's numbers; the others move, count and jump. MUFU.RCP and HFMA2 are not among them:
# integers are divided by the one, and the other often only moves a constant.
_ARITHMETIC = re.compile(r"^(?:FADD|FMUL|FFMA|FMNMX|MUFU(?!\.RCP)|H(?:ADD|MUL)2|[HIDQ]G?MMA|D(?:ADD|MUL|FMA)|F2FP?)\b")


@dataclass(frozen=True)
class Side:
    """One kernel as one compiler made it."""

    code: bytes
    lines: Sequence[str]
    registers: int
    stack: int
    spilled: int  # bytes, stores and loads

    @property
    def opcodes(self) -> Counter[str]:
        return Counter(_GUARD.sub("", line).partition(" ")[0] for line in self.lines)

    @property
    def arithmetic(self) -> Counter[str]:
        return Counter({name: n for name, n in self.opcodes.items() if _ARITHMETIC.match(name)})


@dataclass(frozen=True)
class Pair:
    """One kernel as both made it."""

    name: str
    one: Side
    other: Side

    @property
    def is_same(self) -> bool:
        """Every bit of the machine code, control bits and all."""
        return self.one.code == self.other.code

    @property
    def computes_alike(self) -> bool:
        """As many arithmetic instructions of each kind, in whatever order and registers."""
        return self.one.arithmetic == self.other.arithmetic


def _sides(image: Image) -> Mapping[str, Side]:
    elf, listing = Elf(image.data), sass.listing(image.data)
    kernels = image.facts.kernels if isinstance(image.facts, Cubin) else ()
    return {
        kernel.name: Side(
            code=elf.content(elf.by_name[f".text.{kernel.name}"]),
            lines=listing[kernel.name],
            registers=kernel.registers,
            stack=kernel.stack,
            spilled=image.spills[kernel.name].stores + image.spills[kernel.name].loads,
        )
        for kernel in kernels
    }


def pairs(one: Image, other: Image) -> Iterator[Pair]:
    """Every kernel of two images of one source for one code; both have the same kernels, or KeyError."""
    left, right = _sides(one), _sides(other)
    for name in sorted(left.keys() | right.keys()):
        yield Pair(name, left[name], right[name])


def _both(values: tuple[int, int]) -> str:
    return f"{values[0]:,} / {values[1]:,}"


def _changes(found: Sequence[Pair], what: str) -> str:
    """How many kernels take more of it with the second compiler, and how many less."""
    sides = [(getattr(pair.one, what), getattr(pair.other, what)) for pair in found]
    more, less = sum(b > a for a, b in sides), sum(b < a for a, b in sides)
    return f"+{more} -{less}" if more or less else "0"


HEAD = (
    "operator", "code", "kernels", "same machine code", "same arithmetic", "instructions", "more or fewer registers",
    "bytes spilled", "bytes of the image",
)  # fmt: skip


def row(one: Image, other: Image) -> tuple[list[str], list[Pair]]:
    """One line of the table, first compiler before the slash; and the pairs behind it."""
    found = [*pairs(one, other)]
    lines = (sum(len(pair.one.lines) for pair in found), sum(len(pair.other.lines) for pair in found))
    spilled = (sum(pair.one.spilled for pair in found), sum(pair.other.spilled for pair in found))
    cells = [
        one.op, one.code, str(len(found)), str(sum(pair.is_same for pair in found)),
        str(sum(pair.computes_alike for pair in found)), _both(lines), _changes(found, "registers"), _both(spilled),
        _both((len(one.data), len(other.data))),
    ]  # fmt: skip
    return cells, found


def page(rows: Sequence[Sequence[str]]) -> str:
    """The table, as documents have it."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [HEAD, ["---"] * len(HEAD), *rows]) + "\n"


def furthest(found: Sequence[Pair]) -> str:
    """The kernel whose length differs most, in words."""
    pair = max(found, key=lambda p: abs(len(p.one.lines) - len(p.other.lines)))
    sides = [f"{len(side.lines)} instructions, {side.registers} registers" for side in (pair.one, pair.other)]
    return f"{pair.name}: {sides[0]} / {sides[1]}"
