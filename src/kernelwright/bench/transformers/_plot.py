# SPDX-License-Identifier: MIT
"""The picture: bars of each way, one panel a measured quantity, as an SVG that needs no library to draw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.bench._plot import _text
from kernelwright.bench.transformers._report import rows, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kernelwright.bench.transformers._report import Steps

COLORS = {
    "bf16": "#d1495b",
    "bitsandbytes": "#edae49",
    "under": "#66a182",
    "quantizer": "#0b6e4f",
    "optimize": "#003d5b",
    "floor": "#8d99ae",
    "fused": "#5e548e",
    "liger": "#bc6c25",
}
PANEL, HIGH, COLUMNS, TOP = 340, 190, 3, 76
TITLE = 'font-size="13" font-weight="bold" fill="#111"'


def _panel(
    ways: Mapping[str, Steps], row: tuple[str, str, str, bool], left: float, top: float, keep: list[str]
) -> list[str]:
    step, key, words, more = row
    values = {way: steps[step][key] for way, steps in ways.items() if key in steps.get(step, ())}
    most, width = max(values.values()) or 1, (PANEL - 40) / len(keep)
    bottom = top + HIGH - 40
    parts = [_text(left, top, f"{words} ({'more' if more else 'less'} is better)", TITLE, "start")]
    for place, way in enumerate(keep):
        if way not in values:
            continue
        height, x = (HIGH - 80) * values[way] / most, left + width * place
        parts.append(
            f'<rect x="{x:.1f}" y="{bottom - height:.1f}" width="{width * 0.8:.1f}" height="{height:.1f}" '
            f'fill="{COLORS[way]}"/>'
        )
        label = 'font-size="11" fill="#333"'
        parts.append(_text(x + width * 0.4, bottom - height - 5, shown(values[way], key), label))
    return [*parts, f'<path d="M{left} {bottom}h{PANEL - 40}" stroke="#999"/>']


def svg(about: Mapping[str, Any], ways: Mapping[str, Steps]) -> str:
    """The whole picture."""
    panels, keep = [row for row in rows(ways) if not row[2].startswith(" ")], list(ways)
    width, height = COLUMNS * PANEL + 20, TOP + HIGH * -(-len(panels) // COLUMNS) + 10
    versions = f"kernelwright {about['kernelwright']}, torch {about['torch']}, transformers {about['transformers']}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        '<rect width="100%" height="100%" fill="#fff"/>',
        _text(20, 26, f"{about['model']} in transformers, {about['machine']}", 'font-size="16" fill="#111"', "start"),
        _text(20, 46, versions, 'font-size="12" fill="#555"', "start"),
    ]
    for place, way in enumerate(keep):
        parts.append(f'<circle cx="{width - 560 + 100 * place}" cy="42" r="5" fill="{COLORS[way]}"/>')
        parts.append(_text(width - 550 + 100 * place, 46, way, anchor="start"))
    for place, row in enumerate(panels):
        parts += _panel(ways, row, 20 + PANEL * (place % COLUMNS), TOP + 14 + HIGH * (place // COLUMNS), keep)
    return "\n".join([*parts, "</svg>"]) + "\n"
