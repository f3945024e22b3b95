# SPDX-License-Identifier: MIT
"""Few names for the registers of PTX. A compiler numbers every value of a function once, and text with thousands of
numbers packs badly; names that are used again, the lowest first, halve it.

Registers share a name where no value is lost by it: nowhere is one written while the other's value may still be read.
What reads a value, and from where, is the same as before (tests/toolchain/test_registers.py looks at every image).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from kernelwright_toolchain.cubin.flow import Block, Function, NotUnderstood, function

_RANGE = re.compile(r"^(\.reg \.\w+ %)([A-Za-z_]+)<\d+>;$", re.MULTILINE)
_MENTION = re.compile(r"%[A-Za-z_]+\d+\b")
_LABEL = re.compile(r"\$L__BB\d+_\d+\b")


def renamed(image: bytes) -> bytes:
    """The same program as a bare PTX file; a function with anything whose effect is not known stays as it is."""
    lines = image.decode("ascii").split("\n")
    made: list[str] = []
    at = 0
    while at < len(lines):
        made.append(lines[at])
        at += 1
        if made[-1] == "{" and (end := _closed(lines, at)):
            made.append(_shorter("\n".join(lines[at:end])))
            at = end
    return "\n".join(made).encode("ascii")


def _closed(lines: list[str], begin: int) -> int:
    """The line with the brace that closes a body beginning at this line; 0 if there is none."""
    depth = 1
    for number in range(begin, len(lines)):
        depth += lines[number].count("{") - lines[number].count("}")
        if depth == 0:
            return number if lines[number] == "}" else 0
    return 0


def _shorter(body: str) -> str:
    try:
        known = function(body)
    except NotUnderstood:
        return body
    names = _names(known)
    labels = {label: f"$L{number}" for number, label in enumerate(filter(_LABEL.fullmatch, known.labels))}
    if not set(labels.values()).isdisjoint(known.labels):
        labels = {}
    counts: dict[str, int] = defaultdict(lambda: 1)
    for register, number in names.items():
        kind = known.registers[register]
        counts[kind] = max(counts[kind], number + 1)
    body = _RANGE.sub(lambda found: f"{found[1]}{found[2]}<{counts[found[2]]}>;", body)
    body = _LABEL.sub(lambda found: labels.get(found[0], found[0]), body)
    return _MENTION.sub(
        lambda found: f"%{known.registers[found[0]]}{names[found[0]]}" if found[0] in names else found[0], body
    )


def _names(known: Function) -> dict[str, int]:
    """A number for every register: the lowest for those of one block, so that equal code has equal text wherever it
    stands; above them those that live from block to block.
    """
    across = _across(known)
    names: dict[str, int] = {}
    for block in known.blocks:
        _within(known, block, across, names)
    above: dict[str, int] = defaultdict(int)
    for register, number in names.items():
        above[known.registers[register]] = max(above[known.registers[register]], number + 1)
    apart = _apart(known, across)
    for register, kind in known.registers.items():
        if register in names:
            continue
        taken = {names[other] for other in apart[register] if other in names and known.registers[other] == kind}
        number = above[kind]
        while number in taken:
            number += 1
        names[register] = number
    return names


def _across(known: Function) -> int:
    """Those that more than one block names, and those whose value a block is entered with."""
    across = 0
    home: dict[str, int] = {}
    for number, block in enumerate(known.blocks):
        across |= block.live_in
        for statement in block.statements:
            for register in (*statement.reads, *statement.writes):
                if home.setdefault(register, number) != number:
                    across |= 1 << known.bits[register]
    return across


def _within(known: Function, block: Block, across: int, names: dict[str, int]) -> None:
    """Numbers for the registers of this block alone. A number is free again where its register is named last: an
    instruction reads all its operands before it writes.
    """
    last = {name: at for at, one in enumerate(block.statements) for name in (*one.reads, *one.writes)}
    free: dict[str, set[int]] = defaultdict(set)
    most: dict[str, int] = defaultdict(int)
    for at, statement in enumerate(block.statements):
        ending = [name for name in dict.fromkeys((*statement.reads, *statement.writes)) if last[name] == at]
        ending = [name for name in ending if not across >> known.bits[name] & 1]
        for name in ending:
            if name not in statement.writes:
                free[known.registers[name]].add(names[name])
        for name in statement.writes:
            if across >> known.bits[name] & 1 or name in names:
                continue
            kind = known.registers[name]
            if free[kind]:
                names[name] = min(free[kind])
                free[kind].remove(names[name])
            else:
                names[name] = most[kind]
                most[kind] += 1
        for name in ending:
            if name in statement.writes:
                free[known.registers[name]].add(names[name])


def _apart(known: Function, across: int) -> dict[str, list[str]]:
    """For each register that lives from block to block those it cannot share a name with: written while it is live."""
    order = list(known.registers)
    apart = [0] * len(order)
    for block in known.blocks:
        live = block.live_out
        for statement in reversed(block.statements):
            written = sum(1 << known.bits[name] for name in statement.writes)
            around = (live | written) & across
            for name in statement.writes:
                if across >> known.bits[name] & 1:
                    apart[known.bits[name]] |= around
                    for other in _ones(around):
                        apart[other] |= 1 << known.bits[name]
            if not statement.guarded:
                live &= ~written
            live |= sum(1 << known.bits[name] for name in statement.reads)
    return {name: [order[other] for other in _ones(apart[at]) if other != at] for at, name in enumerate(order)}


def _ones(bits: int) -> Iterator[int]:
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
