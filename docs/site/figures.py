# SPDX-License-Identifier: MIT
"""The recorded results, whatever the shape of their file: one table for each thing that was timed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OURS = "kernelwright"
# Records without figures to draw, and why: they stay links of docs/evidence.md.
NOT_DRAWN = {
    "benchmarks/ops/norm/results/rms_norm-checks-h200.json": "what was checked, not timed",
    "benchmarks/results/checks-h200.json": "what was checked, not timed",
    "benchmarks/results/two-h100.json": "steps that passed, of two GPUs",
}
# Facts of a record that its page names, in this order.
FACTS = (
    "device",
    "instructions",
    "threads",
    "driver",
    "torch",
    "python",
    "kernelwright",
    "transformers",
    "bitsandbytes",
)


@dataclass(frozen=True)
class Row:
    """One case: who took how long, and what no implementation can beat, where the record says so."""

    case: str
    values: dict[str, float]
    limit: float | None = None


@dataclass
class Figures:
    """Rows that one plot can show: of one thing, on one machine, in one unit."""

    title: str
    unit: str
    rows: list[Row] = field(default_factory=list)
    more_is_better: bool = False

    def who(self) -> list[str]:
        """Everybody who has a value, ours first."""
        names = list(dict.fromkeys(name for row in self.rows for name in row.values))
        return sorted(names, key=lambda name: name != OURS)


@dataclass(frozen=True)
class Record:
    """One file of results."""

    path: str
    what: str
    commit: str
    commands: tuple[str, ...]
    facts: dict[str, str]
    figures: tuple[Figures, ...]


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _numbers(values: dict[str, Any]) -> dict[str, float]:
    return {key: number for key, value in values.items() if (number := _number(value)) is not None}


def _grouped(cases: Iterator[tuple[str, str, Row]], unit: str) -> list[Figures]:
    found: dict[str, Figures] = {}
    for title, _, row in cases:
        found.setdefault(title, Figures(title, unit)).rows.append(row)
    return list(found.values())


def _words(case: str) -> str:
    return case.replace("-", " ").replace("_", " ") if "=" in case else case


def _split(op: str, case: str, entry: dict[str, Any]) -> tuple[str, str]:
    """(what it is, which case of it)."""
    overload = str(entry.get("overload", ""))
    if overload:
        return (op if overload == "default" else f"{op}.{overload}"), _words(case.removeprefix(f"{overload}-"))
    if "/" in case:  # swiglu/packed-64x4096-float16
        name, _, rest = case.partition("/")
        first, _, rest = rest.partition("-")
        return (name if first == "default" else f"{name}.{first}"), _words(rest)
    kind, _, rest = case.partition(" ")
    word = rest.partition(" ")[0]
    known = word if word in ("quantize", "dequantize") else "product"
    return (known, case) if kind.startswith(("float", "bfloat")) else (kind, rest)


def _timed(data: dict[str, Any]) -> list[Figures]:
    """Cases with microseconds of everybody, in `us`, or with milliseconds right away."""
    flat = not any("us" in entry for entry in data["cases"].values())

    def rows() -> Iterator[tuple[str, str, Row]]:
        for case, entry in data["cases"].items():
            values = _numbers(entry if flat else entry.get("us", {}))
            if not values:
                continue
            title, shown = _split(str(data.get("op", "")), case, entry)
            if OURS not in values:  # dequantize beside "bitsandbytes dequantize"
                values = {OURS: values.pop(title), **values}
            share = _number(entry.get("limit", entry.get("rate")))
            yield title, case, Row(shown, values, values[OURS] * share if share else None)

    return _grouped(rows(), "ms" if flat else "µs")


def _optimizers(data: dict[str, Any]) -> list[Figures]:
    def rows() -> Iterator[tuple[str, str, Row]]:
        for name, entry in data.items():
            if isinstance(entry, dict) and "ours" in entry:
                op, _, case = name.partition(" ")
                overload, _, rest = case.partition("-")
                values = _numbers({key: entry[key] for key in ("bitsandbytes", "copy") if key in entry})
                title = op if overload == "default" else f"{op}.{overload}"
                yield title, name, Row(_words(rest), {OURS: float(entry["ours"]), **values})

    return _grouped(rows(), "µs")


def _ternary(data: dict[str, Any]) -> list[Figures]:
    names = {"ternary": OURS, "quantize+": f"{OURS} with rows quantized", "our int8": f"{OURS}, 8-bit weights"}
    found = Figures("matmul_ternary", "µs")
    for entry in data["products"]:
        values = {shown: float(entry[key]) for key, shown in names.items() if key in entry}
        found.rows.append(Row(f"{entry['m']} rows, {entry['k']} to {entry['n']}", values))
    return [found]


def _overhead(data: dict[str, Any]) -> list[Figures]:
    ways = {"calls": OURS, "by torch.ops": "torch.ops.kernelwright", "in torch": "torch"}
    found = Figures("What a call takes the CPU, above torch.empty_like", "µs")
    for case in data["calls"]:
        values = {shown: float(data[key][case]) for key, shown in ways.items() if case in data.get(key, {})}
        found.rows.append(Row(_words(case), values))
    return [found]


def _two_wheels(data: dict[str, Any]) -> list[Figures]:
    names = {"new": OURS, "old": "the wheel before", "torch": "torch"}
    found = {
        mode: Figures(f"What a call takes the CPU, {mode}", "µs") for modes in data["calls"].values() for mode in modes
    }
    for case, modes in data["calls"].items():
        for mode, us in modes.items():
            found[mode].rows.append(Row(case, {shown: float(us[key]) for key, shown in names.items() if key in us}))
    return list(found.values())


def _generated(data: dict[str, Any]) -> list[Figures]:
    names = {"nf4": OURS, "bf16": "bfloat16", "disabled": "NF4 without kernels"}
    found: dict[str, Row] = {}
    for way in data["ways"]:
        for entry in way["batches"]:
            row = found.setdefault(f"{entry['batch']} requests at once", Row(f"{entry['batch']} requests at once", {}))
            row.values[names[way["way"]]] = round(float(entry["tokens_per_second"]), 1)
    return [Figures(f"Text from a model of {data['model']}'s shapes", "tokens/s", list(found.values()), True)]


def _transformers(data: dict[str, Any]) -> list[Figures]:
    names = {
        "optimize": OURS,
        "quantizer": f"{OURS} as quantizer",
        "under": f"{OURS} under bitsandbytes",
        "bf16": "bfloat16",
    }
    tokens, steps = Figures("generate()", "tokens/s", [], True), Figures("Prompts and QLoRA steps", "ms")
    for found, key in ((tokens, "tokens_per_second"), (steps, "ms")):
        rows: dict[str, Row] = {}
        for way, measured in data["ways"].items():
            for step, entry in measured.items():
                if (value := _number(entry.get(key))) is not None:
                    rows.setdefault(step, Row(step, {})).values[names.get(way, way)] = value
        found.rows = list(rows.values())
    return [found for found in (tokens, steps) if found.rows]


def _reader(path: str, data: dict[str, Any]) -> Callable[[dict[str, Any]], list[Figures]]:
    name = path.rpartition("/")[2]
    if "cases" in data:
        return _timed
    for start, reader in (
        ("optimizers", _optimizers),
        ("matmul_ternary", _ternary),
        ("call-overhead", _overhead),
        ("two-wheels-calls", _two_wheels),
        ("model", _generated),
        ("transformers", _transformers),
    ):
        if name.startswith(start):
            return reader
    raise ValueError(f"{path}: docs/site/figures.py has no reader for a record like this, and NOT_DRAWN no reason why")


def read(root: Path, path: Path) -> Record:
    """One file; ValueError where its shape is unknown."""
    data = json.loads(path.read_text(encoding="utf-8"))
    name = path.relative_to(root).as_posix()
    facts = {key: str(data[key]) for key in FACTS if key in data}
    if "machine" in data:  # there `device` says "cuda"
        facts["device"] = str(data["machine"])
    commands = data.get("commands") or [data["command"]] if data.get("command") or data.get("commands") else []
    what = re.sub(r"\s+", " ", str(data.get("what", data.get("note", data.get("unit", "")))))
    figures = tuple(_reader(name, data)(data))
    return Record(name, what, str(data["commit"]), tuple(commands), facts, figures)


def results(root: Path) -> dict[str, list[Record]]:
    """family -> its records; "" has those of whole models and of calls."""
    found: dict[str, list[Record]] = {}
    for path in sorted((root / "benchmarks").glob("**/results/*.json")):
        name = path.relative_to(root).as_posix()
        if name not in NOT_DRAWN:
            family = path.parent.parent.name if "/ops/" in name else ""
            found.setdefault(family, []).append(read(root, path))
    return found
