# SPDX-License-Identifier: MIT
"""A picture of results: for each operator and overload, the share of the limit that each contestant reaches."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

STYLES = {
    "kernelwright": {"color": "#0b6e4f", "marker": "o", "linewidth": 2.6, "markersize": 7, "zorder": 5},
    "compile": {"color": "#d1495b", "marker": "s", "linewidth": 1.4, "markersize": 5, "zorder": 4},
    "eager": {"color": "#8d99ae", "marker": "^", "linewidth": 1.4, "markersize": 5, "zorder": 3},
}
OTHER = {"color": "#edae49", "marker": "D", "linewidth": 1.4, "markersize": 5, "zorder": 2}
NAMES = {"compile": "torch.compile", "eager": "torch eager"}
DTYPE = "bfloat16"  # what models use; the other types are in the JSON


def _cases(result: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """By overload, smallest first, and from narrow to wide where as many bytes are moved."""
    cases = [case for case in result["cases"].values() if "us" in case]
    cases = [case for case in cases if case["dtype"] == DTYPE] or cases
    found: dict[str, list[dict[str, Any]]] = {}
    for case in sorted(cases, key=lambda case: (round(math.log2(case["bytes"])), case["shape"][-1])):
        found.setdefault(case["overload"], []).append(case)
    return found


def _panel(axes: Any, title: str, cases: list[dict[str, Any]]) -> None:
    names = [name for name in dict.fromkeys(n for case in cases for n in case["us"]) if name != "copy"]
    for name in sorted(names, key=lambda name: STYLES.get(name, OTHER)["zorder"]):
        here = [(i, case) for i, case in enumerate(cases) if name in case["us"]]
        # The limit's time is what the share says of ours.
        shares = [100 * case["limit"] * case["us"]["kernelwright"] / case["us"][name] for _, case in here]
        axes.plot([i for i, _ in here], shares, label=NAMES.get(name, name), **STYLES.get(name, OTHER))
        if name == "kernelwright":
            for (i, _), share in zip(here, shares, strict=True):
                axes.annotate(f"{share:.0f}", (i, share), (0, 7), textcoords="offset points", ha="center", fontsize=7)
    axes.axhline(100, color="black", linewidth=0.8, linestyle="--", zorder=1)
    axes.set_title(title, fontsize=11, fontweight="bold", loc="left")
    axes.set_xticks(range(len(cases)))
    labels = ["x".join(map(str, case["shape"])) for case in cases]
    axes.set_xticklabels(labels, fontsize=7, rotation=60, ha="right", rotation_mode="anchor")
    axes.set_xlim(-0.4, len(cases) - 0.6)
    axes.grid(axis="y", alpha=0.3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _made_of(results: Sequence[dict[str, Any]]) -> str:
    """Which builds were measured: operators may have been at different commits."""
    ops: dict[tuple[str, str], list[str]] = {}
    for result in results:
        ops.setdefault((result["commit"], result["torch"]), []).append(result["op"])
    return "; ".join(f"{', '.join(names)}: kernelwright at {c}, torch {t}" for (c, t), names in ops.items())


def plot(results: Sequence[dict[str, Any]], out: Path) -> None:
    """One row of panels an operator, one panel an overload; all from one device."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    rows = [(result["op"], _cases(result)) for result in results]
    columns = max(len(cases) for _, cases in rows)
    width = max(2.5, 0.8 + 0.27 * max(len(own) for _, cases in rows for own in cases.values()))
    figure, grid = plt.subplots(
        len(rows), columns, figsize=(1 + width * columns, 1 + 2.8 * len(rows)), sharey=True, squeeze=False
    )
    for axes_of_row, (op, cases) in zip(grid, rows, strict=True):
        for axes in axes_of_row[len(cases) :]:
            axes.set_visible(False)
        for axes, (overload, own) in zip(axes_of_row, cases.items(), strict=False):
            _panel(axes, op if overload == "default" else f"{op}.{overload}", own)
        axes_of_row[0].set_ylabel("% of the limit")
    highest = max(max(line.get_ydata()) for axes in figure.axes for line in axes.get_lines() if len(line.get_xdata()))
    grid[0][0].set_ylim(0, min(200, max(115, 1.12 * highest)))
    handles = {label: h for axes in figure.axes for h, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    order = sorted(handles, key=lambda label: label != "kernelwright")
    first, height = results[0], figure.get_figheight()
    title = f"{first['device']}, {DTYPE}: share of the limit, higher is faster (dashed: a copy of as many bytes)"
    figure.suptitle(title, x=0.01, y=1 - 0.12 / height, ha="left", fontsize=12)
    figure.legend(
        [handles[n] for n in order], order, loc="upper left", ncols=len(order), frameon=False,
        bbox_to_anchor=(0, 1 - 0.3 / height),
    )  # fmt: skip
    figure.text(0.01, 0.05 / height, _made_of(results), fontsize=7)
    figure.tight_layout(rect=(0, 0.15 / height, 1, 1 - 0.5 / height))
    figure.savefig(out, dpi=80, metadata={"Software": None})
    plt.close(figure)


def plot_files(files: Sequence[Path], out: Path) -> None:
    plot([json.loads(path.read_text(encoding="utf-8")) for path in files], out)
