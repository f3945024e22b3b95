# SPDX-License-Identifier: MIT
"""What a call costs in two wheels, in turns: does any operator of the first cost more in the second?

    chrt -f 50 taskset -c 1 python benchmarks/compare_overhead.py OLD NEW [--device cuda] [--only REGEX] [--out FILE]

OLD and NEW are wheels, or folders that have `kernelwright/`. Each is imported by a process of its own; the two and
torch's own way to the same end measure short batches in turns, so that what else the machine does reaches all of
them. Of every overload that OLD has: the smallest case in float32, and rms_norm of 4x64, called as
`kernelwright.<op>` calls it under no_grad, with gradients on and none wanted, and under inference_mode. A figure is
the median over the rounds of microseconds a call: of the thread's own time on a CPU, of the clock on a GPU, whose
queue is empty before each batch.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import statistics
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import IO, Any, cast

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

MODES = ("no_grad", "grad", "inference_mode")
BESIDE_TORCH = ["rms_norm", ["default", [4, 64], "float32", {}]]

# Tells its smallest cases; then reads lines [operator, case, mode, way, calls] and answers microseconds a call.
CHILD = """
import contextlib, json, sys, time
sys.path.insert(0, sys.argv[1])
import torch
from kernelwright import ops
from kernelwright.ops import _direct
from kernelwright.ops._record import Case

device = sys.argv[2]
ops.register()
torch.set_num_threads(1)
clock = time.thread_time_ns if device == "cpu" else time.perf_counter_ns
wait = (lambda: None) if device == "cpu" else torch.cuda.synchronize
modes = {"no_grad": torch.no_grad, "grad": contextlib.nullcontext, "inference_mode": torch.inference_mode}
ready = {}

def smallest():
    for op in map(ops.record, ops.names()):
        for overload in op.overloads:
            found = [c for c in op.cases if c.overload == overload.name and c.dtype == "float32" and min(c.shape) > 0]
            if found:
                case = min(found, key=lambda c: torch.Size(c.shape).numel())
                yield op.name, (case.overload, case.shape, case.dtype, dict(case.options))

def made(name, case):
    overload, shape, dtype, options = case
    call = getattr(getattr(_direct.calls, name), overload)
    if (name, tuple(shape)) == ("rms_norm", (4, 64)):
        x, weight = torch.randn(4, 64, device=device), torch.randn(64, device=device)
        return call, (x, weight, 1e-6), (x, (64,), weight, 1e-6)
    draw = torch.Generator(device).manual_seed(1)
    return call, ops.record(name).make(Case(overload, tuple(shape), dtype, options), device, draw), None

print(json.dumps(list(smallest())), flush=True)
for line in sys.stdin:
    name, case, mode, way, count = json.loads(line)
    with modes[mode]():
        key = json.dumps([name, case, mode])
        if key not in ready:
            ready[key] = made(name, case)
        call, given, torchs = ready[key]
        if way == "torch":
            call, given = torch.nn.functional.rms_norm, torchs
        for _ in range(5):
            call(*given)
        wait()
        start = clock()
        for _ in range(count):
            call(*given)
        spent = clock() - start
        wait()
    print(spent / count / 1000, flush=True)
"""


class Wheel:
    """A process that has imported one of the two."""

    def __init__(self, path: Path, scratch: Path, device: str) -> None:
        if path.is_file():
            zipfile.ZipFile(path).extractall(scratch)
        self.folder = folder = scratch if path.is_file() else path
        if not (folder / "kernelwright" / "signatures.json").is_file():
            raise SystemExit(f"{path}: neither a wheel of kernelwright nor a folder that has kernelwright/")
        self.told = {"name": path.name}
        if path.is_file():
            self.told["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", CHILD, str(folder), device],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.asked, self.answers = cast("IO[str]", self.process.stdin), cast("IO[str]", self.process.stdout)
        self.cases: list[list[Any]] = json.loads(self._line())

    def _line(self) -> str:
        line = self.answers.readline()
        if not line:
            raise SystemExit(f"{self.told['name']}: the process ended with {self.process.wait()}")
        return line

    def ask(self, subject: list[Any], mode: str, way: str, count: int) -> float:
        self.asked.write(json.dumps([*subject, mode, way, count]) + "\n")
        self.asked.flush()
        return float(self._line())

    def close(self) -> None:
        self.asked.close()
        self.process.wait()


def compared(old: Wheel, new: Wheel, subject: list[Any], mode: str, rounds: int, count: int) -> dict[str, float]:
    """Medians of the rounds, each with everybody's turn."""
    turns = [("old", old, "ours"), ("new", new, "ours")]
    if subject == BESIDE_TORCH:
        turns.append(("torch", new, "torch"))
    times: dict[str, list[float]] = {who: [] for who, *_ in turns}
    for number in range(rounds):
        for who, wheel, way in turns if number % 2 else turns[::-1]:
            times[who].append(wheel.ask(subject, mode, way, count))
    return {who: round(statistics.median(of), 2) for who, of in times.items()}


def measured(old: Wheel, new: Wheel, given: argparse.Namespace) -> dict[str, dict[str, dict[str, float]]]:
    found: dict[str, dict[str, dict[str, float]]] = {}
    count = 100 if given.device == "cpu" else 50
    for subject in [*old.cases, BESIDE_TORCH]:
        op, (overload, shape, *_) = subject
        name = f"{op}.{overload} {'x'.join(map(str, shape))}"
        if op not in {other for other, _ in new.cases} or not re.search(given.only, name):
            continue
        for mode in MODES:
            us = compared(old, new, subject, mode, given.rounds, count)
            found.setdefault(name, {})[mode] = us
            told = [f"{who} {us[who]:6.2f} us: {us['new'] / us[who]:.2f}" for who in us if who != "new"]
            print(f"{name:34} {mode:15} {us['new']:6.2f} us, {', '.join(told)}", flush=True)
    return found


def facts(given: argparse.Namespace, old: Wheel, new: Wheel) -> dict[str, Any]:
    import platform

    import torch

    from benchmarks.harness import record
    from benchmarks.overhead import device_name

    options = f" --device {given.device}" + (f" --only '{given.only}'" if given.only else "")
    return {
        "unit": "microseconds a call, medians", "device": device_name(given.device),
        "commit": given.commit or record.commit(),
        "command": f"python benchmarks/compare_overhead.py OLD NEW{options} --rounds {given.rounds}",
        "torch": torch.__version__, "python": platform.python_version(), "old": old.told, "new": new.told,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--only", default="", help="operators whose name has this")
    parser.add_argument("--commit", help="where there is no git")
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pair = [Wheel(path, Path(folder, who), given.device) for who, path in (("old", given.old), ("new", given.new))]
        sys.path.insert(0, str(pair[1].folder))  # for what the benchmarks share
        found = measured(*pair, given)
        told = {**facts(given, *pair), "calls": found}
        for wheel in pair:
            wheel.close()
    slower = [f"{name}, {mode}" for name, of in found.items() for mode, us in of.items() if us["new"] > us["old"]]
    print(f"slower than in the old wheel: {'; '.join(slower) or 'none'}")
    if given.out:
        given.out.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
