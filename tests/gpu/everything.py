# SPDX-License-Identifier: MIT
"""All that a machine with a GPU has to show, in one call: tests, numbers, sanitizers, figures.

    python tests/gpu/everything.py OUT [--wheel FILE] [--minutes N] [--only NAME …] [--ops rms_norm,…]

Each step is a process with a limit of its own, its output a file in OUT; a step that fails or is cut off is said and
the next one begins. OUT/summary.json has what became of each. The exit code is 1 unless all went well.
The sanitizers share their cases among as many processes as the machine's cores can feed, and these its GPUs.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CORES = len(os.sched_getaffinity(0))
PYTHON = sys.executable
PROGRAM = [PYTHON, "tests/gpu/program.py"]


@dataclass(frozen=True)
class Step:
    """One process, or several at once that each do a part (`K/N` is added to the command), and the most it may take."""

    name: str
    seconds: int
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    parts: int = 1

    def commands(self) -> dict[str, list[str]]:
        """By the name of the file that its output goes to."""
        if self.parts == 1:
            return {self.name: self.command}
        return {f"{self.name}-{k}": [*self.command, f"{k}/{self.parts}"] for k in range(1, self.parts + 1)}

    def environments(self, gpus: list[str]) -> list[dict[str, str]]:
        """One for each command. Parts have a GPU each, in turns; what is whole sees all of them."""
        everything = {**os.environ, **self.environment}
        if self.parts == 1 or len(gpus) < 2:
            return [everything] * self.parts
        return [{**everything, "CUDA_VISIBLE_DEVICES": gpus[k % len(gpus)]} for k in range(self.parts)]


def sanitizer(tool: str, seconds: int, ops: list[str]) -> Step:
    """Over every case; without torch's pool, in which what is past the end of a tensor is another one."""
    command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", "--print-limit", "50"]
    if len(ops) == 1 and tool != "initcheck":  # which must see what torch's kernels wrote
        command += ["--kernel-name", f"kns={ops[0]}"]
    environment = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    return Step(tool, seconds, [*command, *PROGRAM, "calls"], environment, parts=processes(24))


def processes(most: int) -> int:
    """A core in four is left to drivers and tools: what is measured against a clock is then cut off less often."""
    return max(4, min(most, CORES * 3 // 4))


def at_once() -> list[str]:
    """pytest's options for several processes, where its plugin is installed: nothing there waits for the GPU alone."""
    return ["-n", str(processes(14)), "-p", "no:benchmark"] if importlib.util.find_spec("xdist") else []


def visible() -> list[str]:
    """The GPUs that may be used, as CUDA_VISIBLE_DEVICES spells them."""
    if (named := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [name for name in named.split(",") if name]
    if shutil.which("nvidia-smi") is None:
        return []
    found = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False).stdout
    return [str(k) for k, _ in enumerate(line for line in found.splitlines() if line.startswith("GPU "))]


def steps(out: Path, ops: list[str]) -> list[Step]:
    """What matters most comes first."""
    bench = [PYTHON, "benchmarks/run.py", "--device", "cuda", "--no-plot", "--out", str(out / "figures")]
    return [
        Step("machine", 20, [PYTHON, "-m", "kernelwright"]),
        Step("numbers", 60, [*PROGRAM, "numbers"]),
        Step("numbers-ptx", 120, [*PROGRAM, "numbers"], {"KERNELWRIGHT_ARCH": "compute_90"}),  # what newer GPUs get
        Step(
            "tests",
            360,
            [
                PYTHON,
                "-m",
                "pytest",
                "-q",
                "-m",
                "gpu",
                "-p",
                "no:cacheprovider",
                *at_once(),
                "tests/python",
                "tests/ops",
            ],
        ),
        sanitizer("memcheck", 300, ops),
        *(Step(f"figures-{op}", 40, [*bench, "--ops", op, "--peers", "eager", "--quick"]) for op in ops),
        sanitizer("initcheck", 400, ops),
        sanitizer("racecheck", 600, ops),
        sanitizer("synccheck", 300, ops),
    ]


def run(step: Step, out: Path, limit: float, gpus: list[str]) -> tuple[str, float]:
    """What became of it, and how long it took."""
    if shutil.which(step.command[0]) is None:
        return f"{step.command[0]} is not on PATH", 0.0
    begin = time.monotonic()
    started = {}
    for (name, command), environment in zip(step.commands().items(), step.environments(gpus), strict=True):
        with (out / f"{name}.txt").open("w", encoding="utf-8") as log:
            started[name] = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
    ended = {name: ended_well(process, begin + limit) for name, process in started.items()}
    bad = [f"{name}: {said}" if step.parts > 1 else said for name, said in ended.items() if said != "ok"]
    return "; ".join(bad) or "ok", time.monotonic() - begin


def ended_well(process: subprocess.Popen[bytes], end: float) -> str:
    try:
        code = process.wait(max(0.0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # a tool's own children too
        process.wait()
        return "cut off"
    return "ok" if code == 0 else f"exit code {code}"


def last_line(file: Path) -> str:
    lines = file.read_text(encoding="utf-8", errors="replace").split("\n") if file.exists() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def install(wheel: Path, out: Path) -> None:
    """Into a folder that every step sees first."""
    site = out / "site"
    command = [PYTHON, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(site), str(wheel)]
    subprocess.run(command, check=True)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH"))))


def names() -> list[str]:
    """The operators of the package that the steps see."""
    code = "from kernelwright import ops; print(*ops.names())"
    done = subprocess.run([PYTHON, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"kernelwright cannot be imported; give --wheel FILE, or install one:\n{done.stderr}")
    return done.stdout.split()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--wheel", type=Path)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--only", nargs="+", help="steps by name, such as numbers or figures-rms_norm")
    parser.add_argument("--ops", help="whose figures and sanitizer reports; default: all")
    asked = parser.parse_args()
    out = asked.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    if asked.wheel:
        install(asked.wheel.resolve(), out)
    chosen = steps(out, asked.ops.split(",") if asked.ops else names())
    end = time.monotonic() + asked.minutes * 60
    gpus = visible()
    summary = []
    for step in chosen:
        if asked.only and step.name not in asked.only:
            continue
        left = end - time.monotonic()
        said, seconds = run(step, out, min(step.seconds, left), gpus) if left > 1 else ("no time was left", 0.0)
        last = last_line(out / f"{next(reversed(step.commands()))}.txt") if seconds else ""
        summary.append({"step": step.name, "said": said, "seconds": round(seconds, 1), "last": last})
        (out / "summary.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
        print(f"{step.name:24} {seconds:6.1f} s  {said}{': ' if last else ''}{last[:150]}", flush=True)
    sys.exit(any(row["said"] != "ok" for row in summary) or not summary)


if __name__ == "__main__":
    main()
