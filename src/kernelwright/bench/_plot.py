# SPDX-License-Identifier: MIT
"""The picture: tokens a second, latency and memory of each way, as an SVG that needs no library to draw."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from kernelwright.bench._report import size

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from kernelwright.bench._report import Found

COLORS = {"nf4": "#0b6e4f", "bf16": "#d1495b", "disabled": "#8d99ae"}
WIDTH, HEIGHT = 1080, 420
TOP, BOTTOM = 92, 360
FONT = 'font-family="sans-serif"'
TITLE = 'font-size="14" font-weight="bold" fill="#111"'


def check_files(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuses what --json and --plot cannot be now, and not when everything was measured."""
    if options.plot and options.plot.suffix != ".svg":
        parser.error(f"--plot {options.plot}: the picture is an SVG; name it so")
    for file in filter(None, (options.json, options.plot)):
        if not file.parent.is_dir():
            parser.error(f"{file}: there is no directory {file.parent}; make it first")


def _text(x: float, y: float, words: str, kind: str = 'font-size="12" fill="#333"', anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {FONT} {kind}>{escape(words)}</text>'


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


@dataclass(frozen=True)
class Panel:
    """A rectangle whose height is logarithmic, so that ways of very different speed can be read in it."""

    left: float
    right: float
    batches: Sequence[int]
    low: float
    high: float

    def x(self, batch: int) -> float:
        place = self.batches.index(batch) + 0.5
        return self.left + (self.right - self.left) * place / len(self.batches)

    def y(self, value: float) -> float:
        share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return BOTTOM - (BOTTOM - TOP) * share

    def frame(self, title: str) -> list[str]:
        marks = [10.0**e for e in range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)]
        ticks = [mark * k for mark in marks for k in (1, 2, 5) if self.low <= mark * k <= self.high]
        parts = [_text(self.left, TOP - 16, title, TITLE, "start")]
        for tick in ticks:
            y = self.y(tick)
            parts.append(f'<path d="M{self.left} {y:.1f}H{self.right}" stroke="#ddd"/>')
            parts.append(_text(self.left - 6, y + 4, _number(tick), 'font-size="11" fill="#555"', "end"))
        parts += [_text(self.x(batch), BOTTOM + 18, str(batch)) for batch in self.batches]
        parts.append(_text((self.left + self.right) / 2, BOTTOM + 38, "requests at once"))
        return parts

    def line(
        self, way: str, points: Mapping[int, float], above: Sequence[Mapping[int, float]], *, dashed: bool = False
    ) -> list[str]:
        """`above`: what lies higher up at some batch; a number close below another line goes below its own."""
        path = "L".join(f"{self.x(batch):.1f} {self.y(value):.1f}" for batch, value in points.items())
        color = COLORS[way]
        dash = ' stroke-dasharray="4 4" stroke-width="1.2"' if dashed else ' stroke-width="2.4"'
        parts = [f'<path d="M{path}" fill="none" stroke="{color}"{dash}/>']
        if not dashed:
            for batch, value in points.items():
                x, y = self.x(batch), self.y(value)
                parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{color}"/>')
                close = sum(batch in other and 0 <= y - self.y(other[batch]) < 40 for other in above)
                parts.append(
                    _text(x, y + (6 + 12 * close if close else -9), _number(value), f'font-size="11" fill="{color}"')
                )
        return parts


def _panel(title: str, left: float, right: float, series: Mapping[tuple[str, bool], Mapping[int, float]]) -> list[str]:
    values = [value for points in series.values() for value in points.values() if value > 0]
    batches = list(next(iter(series.values())))
    panel = Panel(left, right, batches, min(values) / 1.5, max(values) * 1.5)
    parts = panel.frame(title)
    drawn: list[Mapping[int, float]] = []  # from the highest line on
    for (way, dashed), points in sorted(series.items(), key=lambda one: (one[0][1], -sum(one[1].values()))):
        parts += panel.line(way, points, drawn, dashed=dashed)
        drawn.append(points)
    return parts


def _memory(results: Sequence[Found], left: float, right: float) -> list[str]:
    """Bars from 0: the weights, and behind them the peak."""
    most = max(found["peak_bytes"] for found in results)
    step = (right - left) / len(results)
    parts = [_text(left, TOP - 16, "bytes: weights, and the peak", TITLE, "start")]
    for place, found in enumerate(results):
        middle, color = left + step * (place + 0.5), COLORS[found["way"]]
        for name, opacity, below in (("peak_bytes", 0.25, -5), ("weights_bytes", 1, 14)):  # the latter inside its bar
            height = (BOTTOM - TOP - 16) * found[name] / most
            parts.append(
                f'<rect x="{middle - step * 0.3:.1f}" y="{BOTTOM - height:.1f}" width="{step * 0.6:.1f}" '
                f'height="{height:.1f}" fill="{color}" fill-opacity="{opacity}"/>'
            )
            kind = f'font-size="11" fill="{"#111" if below < 0 else "#fff"}"'
            parts.append(_text(middle, BOTTOM - height + below, size(found[name]), kind))
        parts.append(_text(middle, BOTTOM + 18, found["way"]))
    return parts


def svg(about: Mapping[str, Any], results: Sequence[Found]) -> str:
    """The whole picture."""
    ways = [(found["way"], found["batches"]) for found in results]
    speed = {(way, False): {row["batch"]: row["tokens_per_second"] for row in rows} for way, rows in ways}
    half = {(way, False): {row["batch"]: row["token_ms"]["p50"] for row in rows} for way, rows in ways}
    slow = {(way, True): {row["batch"]: row["token_ms"]["p99"] for row in rows} for way, rows in ways}
    title = f"{about['model']}, {about['requests']} requests of {about['prompt']} + {about['tokens']} tokens"
    versions = f"{about['machine']}; kernelwright {about['kernelwright']}, torch {about['torch']}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">',
        '<rect width="100%" height="100%" fill="#fff"/>',
        _text(20, 28, title, 'font-size="17" font-weight="bold" fill="#111"', "start"),
        _text(20, 50, versions, 'font-size="12" fill="#555"', "start"),
        *_panel("tokens a second", 60, 380, speed),
        *_panel("ms a token: p50, and p99 dashed", 440, 760, {**half, **slow}),
        *_memory(results, 810, 1060),
    ]
    for place, (way, _) in enumerate(ways):
        parts.append(f'<circle cx="{700 + 120 * place}" cy="24" r="5" fill="{COLORS[way]}"/>')
        parts.append(_text(710 + 120 * place, 28, way, anchor="start"))
    return "\n".join([*parts, "</svg>"]) + "\n"
