# SPDX-License-Identifier: MIT
"""The table that a build ends with."""

from __future__ import annotations

from collections.abc import Sequence

from kernelwright_toolchain.building.stamp import Row

HEAD = ("image", "op", "bytes", "registers", "spills", "seconds", "peak MB")


def megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f}"


def _line(row: Row) -> tuple[str, ...]:
    told = ("-", "-") if row.spilled is None else (str(row.registers), str(row.spilled))
    size = f"= {row.served_by}" if row.served_by else f"{row.size:,}"
    return row.code, row.op, size, *told, f"{row.seconds:.1f}", megabytes(row.peak)


def _total(rows: Sequence[Row]) -> tuple[str, ...]:
    """Sums, and of memory the most: what one compile needs at once. Images and bytes are those that are packed."""
    packed = [row for row in rows if not row.served_by]
    count = f"{len(packed)} image{'s' if len(packed) != 1 else ''}"
    size, spilled = sum(row.size for row in packed), sum(row.spilled or 0 for row in rows)
    seconds, peak = sum(row.seconds for row in rows), max((row.peak for row in rows), default=0)
    return "total", count, f"{size:,}", "", str(spilled), f"{seconds:.1f}", megabytes(peak)


def table(rows: Sequence[Row]) -> str:
    """Image, size, registers, spills, seconds and memory of each compile; the last line sums up.

    In place of a size, `= CODE`: the image is left out, since all that is loaded of it equals that code's.
    """
    lines = [HEAD, *map(_line, rows), _total(rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
    rule = "  ".join("-" * width for width in widths)
    text = ["  ".join(_cell(line[i], widths[i], i) for i in range(len(HEAD))).rstrip() for line in lines]
    return "\n".join([text[0], rule, *text[1:-1], rule, text[-1]])


def _cell(text: str, width: int, column: int) -> str:
    return text.ljust(width) if column < 2 else text.rjust(width)
