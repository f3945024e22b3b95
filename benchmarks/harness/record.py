# SPDX-License-Identifier: MIT
"""ops/<family>/results/<op>-<device>.json: what was measured, on what, by which command at which commit."""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import kernelwright
from kernelwright import ops

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kernelwright.bench.harness.measure import Result

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT / "benchmarks" / "results"  # what is of no one family
WHAT = (
    "medians, microseconds a call, everybody in turns in one process; `copy` moves as many bytes; `limit` is the share "
    "of the limit that kernelwright reaches"
)


def slug(name: str) -> str:
    """A device's name as part of a file name."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower().removeprefix("nvidia ")).strip("-")


def commit() -> str:
    """Of the tree that this file lies in, with `-dirty` if it has changes; `unknown` without git."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def _elsewhere_too(arguments: Sequence[str]) -> list[str]:
    """The arguments that say what is measured; where results go and which commit it is differ from place to place."""
    rest = iter(arguments)
    kept = []
    for argument in rest:
        if argument in {"--out", "--commit"}:
            next(rest, None)
        elif not argument.startswith(("--out=", "--commit=")):
            kept.append(argument)
    return kept


def facts(device: Any, given_commit: str | None) -> dict[str, Any]:
    return {
        "what": WHAT,
        **device.facts(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "kernelwright": kernelwright.__version__,
        "commit": given_commit or commit(),
        "command": " ".join(["python", "benchmarks/run.py", *_elsewhere_too(sys.argv[1:])]),
    }


def _entry(result: Result) -> dict[str, Any]:
    """One case; times with as many digits as they repeat."""
    times = {name: float(f"{us:.4g}") for name, us in result.us.items()}
    case = result.subject.case
    about = {"overload": case.overload, "shape": list(case.shape), "dtype": case.dtype, "bytes": result.subject.bytes}
    return {**about, **({"limit": round(result.share, 3), "us": times} if times else {"not run": result.notes})}


def text(about: dict[str, Any], results: Sequence[Result]) -> str:
    """JSON with one line a case, so that a change of one figure is a change of one line."""
    head = json.dumps(about, indent=1, ensure_ascii=False)[:-2]
    lines = [f"  {json.dumps(str(r.subject.case))}: {json.dumps(_entry(r))}" for r in results]
    return f'{head},\n "cases": {{\n' + ",\n".join(lines) + "\n }\n}\n"


def write(out: Path | None, device: Any, about: dict[str, Any], results: Sequence[Result]) -> list[Path]:
    """One file an operator, in `out` or in its family's folder; what was measured there before is replaced."""
    written = []
    for op in dict.fromkeys(result.subject.op.name for result in results):
        folder = out or ROOT / "benchmarks" / "ops" / ops.families()[op] / "results"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{op}-{slug(device.name)}.json"
        mine = [result for result in results if result.subject.op.name == op]
        path.write_text(text({"op": op, **about}, mine), encoding="utf-8")
        written.append(path)
    return written
