# SPDX-License-Identifier: MIT
"""Which writes of a register each read of a PTX function may see: read line by line, without the code that renames."""

from __future__ import annotations

import re

NUMBERED = re.compile(r"%(?:rs|rd|r|fd|f|p)\d+\b")
SILENT = re.compile(
    r"(?:st|red|bra|bar|barrier|cp|ret|exit|griddepcontrol|fence|membar|prefetch|trap)\b|mbarrier\.init\b"
)
BODY = re.compile(r"^\{\n(.*?\n)\}$", re.MULTILINE | re.DOTALL)


def bodies(text: str) -> list[str]:
    return BODY.findall(text)


def _lines(body: str) -> list[str]:
    """Labels and instructions, one each; those of inline assembly stand in braces on one line."""
    found: list[str] = []
    for line in body.splitlines():
        if line in ("{", "}"):
            continue
        inner = line[1:-1] if line.startswith("{ ") and line.endswith(" }") else line
        found += [part.strip() + (";" if ";" in inner else "") for part in inner.split(";") if part.strip()]
    return [line for line in found if not line.startswith(".")]


def _parts(line: str) -> tuple[str, str, str]:
    """The guard, what is written, and what is read, as text."""
    guard, rest = line.split(" ", 1) if line.startswith("@") else ("", line)
    name, _, operands = rest.partition(" ")
    if SILENT.match(name) or operands.startswith("["):
        return guard, "", operands
    if operands.startswith("{"):
        written, _, read = operands.partition("}")
    else:
        written, _, read = operands.partition(",")
    return guard, written, read


def shape(body: str) -> list[str]:
    """The lines without the names of registers and labels: what renaming may not touch."""
    order: dict[str, int] = {}
    lines = [
        re.sub(r"\$L\w+", lambda found: f"L{order.setdefault(found[0], len(order))}", line) for line in _lines(body)
    ]
    return [NUMBERED.sub(lambda found: found[0].rstrip("0123456789"), line) for line in lines]


def written(body: str) -> list[int]:
    """How many different registers each line writes."""
    return [len(set(NUMBERED.findall(_parts(line)[1]))) for line in _lines(body)]


def sources(body: str) -> list[tuple[int, list[tuple[int, bool]]]]:
    """For each line that reads registers, in the order it names them: the writes whose value may be there, a bit each
    in their order, and whether it may be there unwritten.
    """
    flow = _Flow(body)
    return [found for head in flow.heads for found in flow.reads(head)]


class _Flow:
    """Sets are integers: a bit for each register that is unwritten, above them one for each write."""

    def __init__(self, body: str) -> None:
        self.lines = _lines(body)
        self.parts = [("", "", "") if line.endswith(":") else _parts(line) for line in self.lines]
        self.jumps = [re.search(r"\b(bra|ret|exit)\b", line) for line in self.lines]
        labels = {line.rstrip(":"): at for at, line in enumerate(self.lines) if line.endswith(":")}
        behind = (at + 1 for at, jump in enumerate(self.jumps) if jump and at + 1 < len(self.lines))
        self.heads = sorted({0, *labels.values(), *behind})
        ends = [*self.heads[1:], len(self.lines)]
        self.blocks = dict(zip(self.heads, ends, strict=True))
        self.names = {name: at for at, name in enumerate(sorted(set(NUMBERED.findall(body))))}
        self.of = {name: 1 << at for name, at in self.names.items()}  # every bit of a register
        self.writes: list[list[tuple[str, int]]] = []
        bit = len(self.names)
        for _, written, _ in self.parts:
            here = []
            for name in NUMBERED.findall(written):
                here.append((name, 1 << bit))
                self.of[name] |= 1 << bit
                bit += 1
            self.writes.append(here)
        self.follow = {head: self._follow(end, labels) for head, end in self.blocks.items()}
        self.into = self._spread()

    def _follow(self, end: int, labels: dict[str, int]) -> list[int]:
        jump = self.jumps[end - 1]
        found = [labels[self.lines[end - 1].rstrip(";").split()[-1]]] if jump and jump[1] == "bra" else []
        if end < len(self.lines) and (not jump or self.parts[end - 1][0]):
            found.append(end)
        return found

    def _after(self, at: int, now: int) -> int:
        for name, bit in self.writes[at]:
            now = (now if self.parts[at][0] else now & ~self.of[name]) | bit
        return now

    def _spread(self) -> dict[int, int]:
        """What may be in the registers where each block begins, until nothing is added."""
        into = {0: (1 << len(self.names)) - 1}
        change: dict[int, tuple[int, int]] = {}
        for head, end in self.blocks.items():
            made, kept = 0, -1
            for at in range(head, end):
                made, kept = self._after(at, made), self._after(at, kept)
            change[head] = (made, kept)
        todo = [0]
        while todo:
            head = todo.pop()
            made, kept = change[head]
            out = made | (into[head] & kept)
            for follow in self.follow[head]:
                known = into.get(follow)
                if known is None or out & ~known:
                    into[follow] = out | (known or 0)
                    todo.append(follow)
        return into

    def reads(self, head: int) -> list[tuple[int, list[tuple[int, bool]]]]:
        if head not in self.into:
            return []  # nothing leads there
        found, now = [], self.into[head]
        for at in range(head, self.blocks[head]):
            guard, _, read = self.parts[at]
            names = NUMBERED.findall(f"{guard} {read}")
            if names:
                bits = [now & self.of[name] for name in names]
                unwritten = (1 << len(self.names)) - 1
                found.append((at, [(each >> len(self.names), bool(each & unwritten)) for each in bits]))
            now = self._after(at, now)
        return found
