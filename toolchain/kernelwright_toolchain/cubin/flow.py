# SPDX-License-Identifier: MIT
"""The statements of a PTX function: which registers each reads and writes, what may run after it, and what is live."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

# Instructions whose first operand is what they write, unless it is an address. One that reads or writes registers after
# it is issued (wgmma, tcgen05) is in neither list, and a function with it is not understood.
_WRITE = {
    "abs", "activemask", "add", "addc", "and", "atom", "bfe", "bfi", "bfind", "bmsk", "brev", "clz", "cnot",
    "copysign", "cos", "createpolicy", "cvt", "cvta", "div", "dp2a", "dp4a", "elect", "ex2", "fma", "fns",
    "getctarank", "isspacep", "ld", "ldmatrix", "ldu", "lg2", "lop3", "mad", "mad24", "madc", "mapa", "match",
    "max", "mbarrier", "min", "mma", "mov", "movmatrix", "mul", "mul24", "neg", "not", "or", "popc", "prmt",
    "rcp", "red", "redux", "rem", "rsqrt", "sad", "selp", "set", "setp", "shf", "shfl", "shl", "shr", "sin",
    "slct", "sqrt", "st", "stmatrix", "sub", "subc", "szext", "tanh", "testp", "vote", "xor",
}  # fmt: skip
_ONLY_READ = {
    "bar", "barrier", "bra", "cp", "discard", "exit", "fence", "griddepcontrol", "membar", "nanosleep",
    "prefetch", "ret", "trap",
}  # fmt: skip
_REDUCTION = re.compile(r"(?:bar|barrier)\b.*\.red\b")  # the only ones of their kind that write
_REGISTERS = re.compile(r"\.reg \.(\w+) %([A-Za-z_]+)<(\d{1,7})>;")
_PIECE = re.compile(
    r"\s*(?:(?P<label>[A-Za-z_$][\w$]*):(?!:)|(?P<brace>[{}])"
    r'|(?P<statement>[^;{}"]*(?:(?:\{[^{};"]*\}|"[^"\n]*")[^;{}"]*)*;))'
)
_STATEMENT = re.compile(r"(?:@!?(?P<guard>[%\w$]+)\s+)?(?P<name>[a-z][\w.:]*)(?P<operands>(?:\s[^;]*)?);")
_FIRST = re.compile(r"\s*(\{[^}]*\}|[^,]*)")
_DIRECTIVE = re.compile(r"\.(?:pragma|shared|local|param)\b")
_MENTION = re.compile(r"%[A-Za-z_]+\d+\b")


class NotUnderstood(Exception):
    """Something in a function whose effect on registers is not known; the function stays as it is."""


@dataclass
class Statement:
    begin: int  # where it stands in the body
    end: int
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    guarded: bool  # under a predicate: what it writes may keep its value
    target: str = ""  # the label a branch goes to
    ends: bool = False  # nothing runs after it


@dataclass
class Block:
    statements: list[Statement] = field(default_factory=list)
    follow: list[int] = field(default_factory=list)
    live_in: int = 0
    live_out: int = 0


@dataclass
class Function:
    registers: dict[str, str]  # every numbered register that is declared or mentioned, and its kind
    blocks: list[Block]
    labels: list[str]

    def __post_init__(self) -> None:
        self.bits = {name: number for number, name in enumerate(self.registers)}


def declared(body: str) -> dict[str, int]:
    """How many registers each kind has, by the letters of their names."""
    return {kind: int(count) for _, kind, count in _REGISTERS.findall(body)}


def function(body: str) -> Function:
    """What stands between the braces of a function, or NotUnderstood."""
    kinds = declared(body)
    registers: dict[str, str] = {}
    blocks, begins = [Block()], {}
    for label, statement in _pieces(body, kinds, registers):
        if label:
            if label in begins:
                raise NotUnderstood(f"{label} stands twice")
            blocks.append(Block())
            begins[label] = len(blocks) - 1
        elif statement:
            blocks[-1].statements.append(statement)
            if statement.target or statement.ends:
                blocks.append(Block())
    for number, block in enumerate(blocks):
        block.follow = list(_follow(number, block, begins, len(blocks)))
    found = Function(registers, blocks, list(begins))
    _live(found)
    return found


def _follow(number: int, block: Block, begins: dict[str, int], count: int) -> Iterator[int]:
    last = block.statements[-1] if block.statements else None
    if last and last.target:
        if last.target not in begins:
            raise NotUnderstood(f"a branch to {last.target}, which is no label")
        yield begins[last.target]
    if number + 1 < count and not (last and (last.target or last.ends) and not last.guarded):
        yield number + 1


def _pieces(body: str, kinds: dict[str, int], registers: dict[str, str]) -> Iterator[tuple[str, Statement | None]]:
    """Labels and instructions in their order; declarations are looked at and left out."""
    at, depth, end = 0, 0, len(body.rstrip())
    while at < end:
        piece = _PIECE.match(body, at)
        if piece is None:
            raise NotUnderstood(body[at : at + 80].strip())
        at = piece.end()
        if piece["label"]:
            yield piece["label"], None
        elif piece["brace"]:
            depth += 1 if piece["brace"] == "{" else -1
            if depth < 0:
                raise NotUnderstood("a brace that closes nothing")
        else:
            begin = piece.start("statement")
            statement = _statement(piece["statement"], begin, depth, kinds, registers)
            if statement:
                yield "", statement
    if depth:
        raise NotUnderstood("a brace that is not closed")


def _statement(text: str, begin: int, depth: int, kinds: dict[str, int], registers: dict[str, str]) -> Statement | None:
    if text.startswith(".reg"):
        _declaration(text, depth, kinds)
        return None
    if _DIRECTIVE.match(text):
        if "%" in text:
            raise NotUnderstood(text)
        return None
    parts = _STATEMENT.fullmatch(text)
    kind = parts["name"].split(".")[0] if parts else ""
    if parts is None or kind not in (_WRITE | _ONLY_READ) or _REDUCTION.match(parts["name"]):
        raise NotUnderstood(text)
    operands, written = parts["operands"], ""
    first = _FIRST.match(operands)
    if kind in _WRITE and first and not first[1].startswith("["):
        written, operands = first[1], operands[first.end() :]
    reads = _numbered([parts["guard"] or "", operands], kinds, registers)
    writes = _numbered([written], kinds, registers)
    target = parts["operands"].strip() if kind == "bra" else ""
    ends = kind in ("ret", "exit")
    return Statement(begin, begin + len(text), reads, writes, parts["guard"] is not None, target, ends)


def _declaration(text: str, depth: int, kinds: dict[str, int]) -> None:
    """A range of numbered registers of the whole function, or names that none of these can have."""
    ranged = _REGISTERS.fullmatch(text)
    if ranged and depth:
        raise NotUnderstood(text)
    if not ranged and ("<" in text or any(name[1:].rstrip("0123456789") in kinds for name in _MENTION.findall(text))):
        raise NotUnderstood(text)


def _numbered(texts: Sequence[str], kinds: dict[str, int], registers: dict[str, str]) -> tuple[str, ...]:
    found = dict.fromkeys(name for text in texts for name in _MENTION.findall(text))
    for name in found:
        kind = name[1:].rstrip("0123456789")
        if kind in kinds:
            registers.setdefault(name, kind)
    return tuple(name for name in found if name in registers)


def _live(found: Function) -> None:
    """What each block reads before it writes it, and what is read after it, until nothing is added."""
    bits = found.bits
    reads, writes = [], []
    for block in found.blocks:
        read = written = 0
        for statement in block.statements:
            for name in statement.reads:
                read |= (1 << bits[name]) & ~written
            if not statement.guarded:
                for name in statement.writes:
                    written |= 1 << bits[name]
        reads.append(read)
        writes.append(written)
    changed = True
    while changed:
        changed = False
        for number in range(len(found.blocks) - 1, -1, -1):
            block = found.blocks[number]
            out = 0
            for follow in block.follow:
                out |= found.blocks[follow].live_in
            into = reads[number] | (out & ~writes[number])
            changed = changed or into != block.live_in
            block.live_in, block.live_out = into, out
