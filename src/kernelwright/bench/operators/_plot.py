# SPDX-License-Identifier: MIT
"""The picture: a line a case, a dot for each peer at how many times as long as ours its call takes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from kernelwright.bench._plot import _text
from kernelwright.bench.harness.contestants import OURS
from kernelwright.bench.operators import _report
from kernelwright.bench.operators._run import ratios

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kernelwright.bench.operators._run import Run

COLORS = {
    "bitsandbytes": "#edae49",
    "flash_attn": "#003d5b",
    "liger": "#bc6c25",
    "eager": "#d1495b",
    "compile": "#5e548e",
    "scaled_mm": "#66a182",
    "scaled_mm_fast": "#8d99ae",
}
WIDTH, LEFT, RIGHT, TOP, ROW = 1080, 390, 1040, 96, 18
MARKS = (0.01, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 1000)
SMALL = 'font-size="11" fill="#333"'


def _place(times: float, low: float, high: float) -> float:
    share = math.log(min(max(times, low), high) / low) / math.log(high / low)
    return LEFT + (RIGHT - LEFT) * share


def _row(y: float, name: str, case: Mapping[str, Any], low: float, high: float) -> list[str]:
    parts = [_text(LEFT - 12, y + 4, f"{name}  {case['us'][OURS]:.4g} µs", SMALL, "end")]
    parts.append(f'<path d="M{LEFT} {y}H{RIGHT}" stroke="#eee"/>')
    for peer, color in COLORS.items():
        if peer in case["us"]:
            times = case["us"][peer] / case["us"][OURS]
            x = _place(times, low, high)
            label = f"{_report.shown(peer)}: {times:.2f}x as long"
            parts.append(f'<circle cx="{x:.1f}" cy="{y}" r="5" fill="{color}"><title>{label}</title></circle>')
    return parts


def svg(run: Run) -> str:
    """The whole picture; the machine and the versions stand in it."""
    cases = {name: case for name, case in run["cases"].items() if len(case["us"]) > 2}  # ours, the copy, and somebody
    found = ratios(run)
    values = [value for peer in found.values() for value in peer] or [1.0]
    low, high = min(0.8, *values) / 1.1, max(1.25, *values) * 1.1
    bottom = TOP + ROW * len(cases)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 40}" width="{WIDTH}">',
        '<rect width="100%" height="100%" fill="#fff"/>',
        _text(20, 26, _report.machine(run), 'font-size="16" font-weight="bold" fill="#111"', "start"),
        _text(20, 46, _report.versions(run), 'font-size="12" fill="#555"', "start"),
        _text(LEFT, 70, "times as long as kernelwright (right of the line: kernelwright is faster)", SMALL, "start"),
    ]
    for mark in (mark for mark in MARKS if low <= mark <= high):
        x = _place(mark, low, high)
        stroke = "#111" if mark == 1 else "#ccc"
        parts.append(f'<path d="M{x:.1f} {TOP - 12}V{bottom}" stroke="{stroke}"/>')
        parts.append(_text(x, bottom + 16, f"{mark:g}x", SMALL))
    for number, (name, case) in enumerate(cases.items()):
        parts += _row(TOP + ROW * number, name, case, low, high)
    for number, peer in enumerate(peer for peer in COLORS if peer in found):
        parts.append(f'<circle cx="{LEFT + 6 + 130 * number}" cy="42" r="5" fill="{COLORS[peer]}"/>')
        parts.append(_text(LEFT + 16 + 130 * number, 46, _report.shown(peer), anchor="start"))
    return "\n".join([*parts, "</svg>"]) + "\n"
