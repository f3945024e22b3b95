# SPDX-License-Identifier: MIT
"""README.md's table of speed and its picture, for light and for dark pages, made from the recorded results.

`python benchmarks/front.py` writes all three, `--check` only compares, as its test does. The cases
below are looked up in the results of ops/<family>/results. Nothing is measured here.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
COMMAND = "python benchmarks/front.py"
DEVICE = "h200"
PICTURE = "benchmarks/results/front-{device}-{theme}.svg"
PEERS = {"bitsandbytes": "bitsandbytes", "eager": "torch", "compile": "torch.compile"}  # in the results: on the page


@dataclass(frozen=True)
class Row:
    """A case of a recorded result, and what it is to somebody who does not know the operator."""

    family: str
    op: str
    case: str
    about: str


_NF4 = "default-{}x8192-bfloat16-n=28672-blocksize=64-quant_type=nf4-bias=False"
ROWS = (
    Row("four_bit", "matmul_4bit", _NF4.format(1), "NF4 linear layer 8192 → 28672, 1 token"),
    Row("four_bit", "matmul_4bit", _NF4.format(16), "the same, 16 tokens"),
    Row("four_bit", "matmul_4bit", _NF4.format(2048), "the same, 2048 tokens"),
    Row(
        "norm", "rms_norm", "backward-16384x4096-bfloat16-weight=same-sum=True-wanted=w",
        "RMSNorm with residual, backward, 16384 x 4096",
    ),
    Row("gated", "swiglu", "packed-8192x14336-bfloat16", "SwiGLU of one tensor, 8192 x 14336"),
)  # fmt: skip


@dataclass(frozen=True)
class Found:
    row: Row
    record: str  # path of the result, from the root
    result: Mapping[str, Any]

    @property
    def us(self) -> Mapping[str, float]:
        times: Mapping[str, float] = self.result["cases"][self.row.case]["us"]
        return times


def look_up(root: Path = ROOT, rows: Sequence[Row] = ROWS, device: str = DEVICE) -> list[Found]:
    found = []
    for row in rows:
        record = f"benchmarks/ops/{row.family}/results/{row.op}-{device}.json"
        result = json.loads((root / record).read_text(encoding="utf-8"))
        if "us" not in result["cases"].get(row.case, {}):
            known = ", ".join(name for name, case in result["cases"].items() if "us" in case)
            raise SystemExit(f"{record} has no time of {row.case!r}: choose another in benchmarks/front.py of {known}")
        found.append(Found(row, record, result))
    return found


def _number(us: float) -> str:
    return f"{us:,.0f}" if us >= 1000 else f"{us:.0f}" if us >= 100 else f"{us:.1f}"


def table(found: Sequence[Found]) -> str:
    """Microseconds a call, the least in bold; each leads to its record."""
    lines = [["microseconds a call", "kernelwright", *PEERS.values(), "record"], ["---", *["---:"] * 4, "---"]]
    for each in found:
        least = min(_timed(each))
        cells = []
        for name in ("kernelwright", *PEERS):
            us = each.us.get(name)
            number = "" if us is None else f"**{_number(us)}**" if us == least else _number(us)
            cells.append(f"[{number}]({each.record})" if number else "-")
        lines.append([each.row.about, *cells, f"`{each.result['commit']}`"])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


THEMES = {
    "light": {"ground": "#ffffff", "text": "#1f2328", "dim": "#59636e", "kernelwright": "#0b6e4f"},
    "dark": {"ground": "#0d1117", "text": "#f0f6fc", "dim": "#9198a1", "kernelwright": "#2fb380"},
}
COLORS = {"bitsandbytes": "#d1495b", "eager": "#8d99ae", "compile": "#d29922"}
WIDTH, LEFT, RIGHT, BAR, GAP, TOP, BOTTOM = 860, 356, 60, 13, 16, 78, 30


def _text(x: float, y: float, words: str, color: str, size: int = 12, anchor: str = "start", weight: int = 400) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" font-family="sans-serif" font-size="{size}" font-weight="{weight}" '
        f'text-anchor="{anchor}" fill="{color}">{words}</text>'
    )


def _bars(each: Found, y: float, scale: float, theme: Mapping[str, str]) -> list[str]:
    """One row: its name, then a bar for each contestant that was timed."""
    names = ["kernelwright", *(name for name in PEERS if name in each.us)]
    parts = [_text(LEFT - 12, y + BAR * len(names) / 2 + 4, each.row.about, theme["text"], 13, "end")]
    for i, name in enumerate(names):
        times = each.us[name] / each.us["kernelwright"]
        top, width = y + i * BAR, times * scale
        color = theme["kernelwright"] if name == "kernelwright" else COLORS[name]
        parts.append(f'<rect x="{LEFT}" y="{top:g}" width="{width:.1f}" height="{BAR - 2}" rx="1.5" fill="{color}"/>')
        value = f"{_number(each.us[name])} µs" if name == "kernelwright" else f"{times:.2f} x"
        parts.append(_text(round(LEFT + width + 6, 1), top + 10, value, theme["dim"], 11))
    return parts


def picture(found: Sequence[Found], theme: Mapping[str, str]) -> str:
    """The time of each contestant as a multiple of kernelwright's, row by row."""
    scale = (WIDTH - LEFT - RIGHT) / max(t / each.us["kernelwright"] for each in found for t in _timed(each))
    parts, y = [], float(TOP)
    for each in found:
        parts += _bars(each, y, scale, theme)
        y += BAR * len(_timed(each)) + GAP
    made_of = found[0].result
    x, legend = float(LEFT), []
    for name, label in (("kernelwright", "kernelwright"), *PEERS.items()):
        color = theme["kernelwright"] if name == "kernelwright" else COLORS[name]
        legend.append(f'<rect x="{x:g}" y="46" width="11" height="11" rx="1.5" fill="{color}"/>')
        legend.append(_text(x + 16, 56, label, theme["text"]))
        x += 40 + 7 * len(label)
    height = y - GAP + BOTTOM
    commits = ", ".join(dict.fromkeys(each.result["commit"] for each in found))
    foot = f"{made_of['device']}, driver {made_of['driver']}, torch {made_of['torch']}; commits {commits}"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}">',
        f'<rect width="100%" height="100%" fill="{theme["ground"]}"/>',
        _text(20, 28, "Time of a call, beside kernelwright's. A shorter bar is faster.", theme["text"], 16, weight=600),
        *legend, *parts, _text(20, height - 9, foot, theme["dim"], 11), "</svg>",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _timed(each: Found) -> list[float]:
    return [each.us[name] for name in ("kernelwright", *PEERS) if name in each.us]


def files(root: Path = ROOT) -> dict[Path, str]:
    """Each file that is made, as it should be."""
    found = look_up(root)
    begin, end = f"<!-- begin speed: made by `{COMMAND}` -->\n", "<!-- end speed -->"
    page, count = re.subn(
        rf"({re.escape(begin)}).*?({end})",
        lambda match: f"{match[1]}{table(found)}{match[2]}",
        (root / "README.md").read_text(encoding="utf-8"),
        flags=re.DOTALL,
    )
    if count != 1:
        raise SystemExit(f"README.md: expected one block between {begin.strip()} and {end}, found {count}; put it back")
    pictures = {
        root / PICTURE.format(device=DEVICE, theme=name): picture(found, theme) for name, theme in THEMES.items()
    }
    return {root / "README.md": page, **pictures}


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file is stale")
    check = parser.parse_args(arguments).check
    for path, text in files(root).items():
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        if check:
            raise SystemExit(f"{path.relative_to(root)} is stale: run `{COMMAND}`")
        path.write_text(text, encoding="utf-8")
        print(f"{path.relative_to(root)}: written")


if __name__ == "__main__":
    main()
