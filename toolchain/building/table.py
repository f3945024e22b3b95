# SPDX-License-Identifier: MIT
"""The table that a build ends with."""

from __future__ import annotations

from collections.abc import Sequence

from toolchain.building.stamp import Row


def table(rows: Sequence[Row]) -> str:
    """Image, size, registers, spills, seconds; the last line sums up."""
    head = ("image", "op", "bytes", "registers", "spills", "seconds")
    body = [
        (r.code, r.op, f"{r.size:,}", *(("-", "-") if r.spilled is None else (str(r.registers), str(r.spilled))),
         f"{r.seconds:.1f}") for r in rows
    ]  # fmt: skip
    spilled = sum(row.spilled or 0 for row in rows)
    seconds = sum(row.seconds for row in rows)
    total = (
        "total",
        f"{len(rows)} image{'s' if len(rows) != 1 else ''}",
        f"{sum(r.size for r in rows):,}",
        "",
        str(spilled),
        f"{seconds:.1f}",
    )
    lines = [head, *body, total]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    rule = "  ".join("-" * width for width in widths)
    text = ["  ".join(_cell(line[i], widths[i], i) for i in range(len(head))).rstrip() for line in lines]
    return "\n".join([text[0], rule, *text[1:-1], rule, text[-1]])


def _cell(text: str, width: int, column: int) -> str:
    return text.ljust(width) if column < 2 else text.rjust(width)
