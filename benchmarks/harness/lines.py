# SPDX-License-Identifier: MIT
"""What the programs of one family's own benchmarks share: options, timing in graphs, a record of one line a case."""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness import record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kernelwright.bench.harness.cuda import Gpu

    Calls = dict[str, Callable[[], Any]]


def options(doc: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cases whose name has this")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--commit", default=None)
    return parser.parse_args()


def in_graphs(case: Any, device: Gpu, rounds: int, check: Callable[[Any, Calls], None]) -> dict[str, float]:
    """Microseconds a call of each contestant, over as many sets of tensors as leave L2 behind; checked first."""
    sets: list[Calls] = [case.contestants(case.made()) for _ in range(device.sets(case.bytes))]
    check(case, sets[0])
    count = device.calls(case.bytes, case.flops)

    def turns(name: str) -> list[Callable[[], Any]]:
        return [sets[i % len(sets)][name] for i in range(count)]

    us, said = device.times({name: partial(turns, name) for name in sets[0]}, rounds)
    for name, words in said.items():
        print(f"{case}: {name}: {words}")
    return {name: float(f"{each:.4g}") for name, each in us.items()}


def write(
    asked: argparse.Namespace, stem: str, device: Any, about: Mapping[str, Any], cases: Mapping[str, Any]
) -> None:
    """To OUT/STEM-DEVICE.json, a line a case: a change of one figure is a change of one line."""
    whole = {"op": stem, **record.facts(device, asked.commit), **about}
    head = json.dumps(whole, indent=1, ensure_ascii=False)[:-2]
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(figures)}" for name, figures in cases.items())
    asked.out.mkdir(parents=True, exist_ok=True)
    path = asked.out / f"{stem}-{record.slug(device.name)}.json"
    path.write_text(f'{head},\n "cases": {{\n{rows}\n }}\n}}\n', encoding="utf-8")
