# SPDX-License-Identifier: MIT
"""How fast a model of transformers loads, generates and trains: in bfloat16, with bitsandbytes, and with kernelwright.

The weights are random: no file is read or fetched but a checkpoint that is written first. Each way runs in a process of
its own. What a step found is printed, and written to the JSON file, when the step ends. Exits with 0, or with 1 and
what failed or was wrong.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelwright import _environment
from kernelwright._files import version
from kernelwright.bench._plot import check_files
from kernelwright.bench._shapes import SHAPES, Shape
from kernelwright.bench.transformers import _goals, _plot, _report
from kernelwright.bench.transformers._asked import BRIEF, NEEDS, ON_A_GPU, QUICK, STEPS, WAYS, Asked, Work, steps_of
from kernelwright.bench.transformers._way import MARK

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kernelwright.bench.transformers._report import Steps


def _several(known: Any) -> Any:
    def names(text: str) -> tuple[str, ...]:
        found = tuple(text.split(","))
        if unknown := sorted(set(found) - set(known)):
            raise argparse.ArgumentTypeError(f"no such name {', '.join(unknown)}; there are {', '.join(known)}")
        return tuple(name for name in known if name in found)

    return names


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


_count.__name__ = "positive number"  # what argparse calls it in an error


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m kernelwright bench transformers",
        description=__doc__,
        epilog="ways: " + "; ".join(f"{name}: {words}" for name, words in WAYS.items()) + ". "
        "steps: " + "; ".join(f"{name}: {words}" for name, words in STEPS.items()),
    )
    add = parser.add_argument
    add("--config", choices=SHAPES, help="default: llama-8b-like on a GPU, llama-tiny-like on the CPU")
    add("--layers", type=_count, metavar="N", help="of these, instead of the configuration's")
    add("--vocabulary", type=_count, metavar="N", help="so large, instead of the configuration's")
    add("--ways", type=_several(WAYS), default=tuple(WAYS), metavar="LIST", help=f"default: {','.join(WAYS)}")
    add("--steps", type=_several(STEPS), default=tuple(STEPS), metavar="LIST", help=f"default: {','.join(STEPS)}")
    add("--device", choices=("cpu", "cuda"), help="default: a GPU if torch sees one")
    add("--plain-scales", action="store_true", help="as float32, where else they are quantized too")
    add("--threads", type=_count, default=0, metavar="N", help="on the CPU; default: torch's")
    add("--quick", action="store_true", help="few and short texts: says that it works and no more")
    add("--goals", action="store_true", help="what is asked of each way, met or not: what that needs, and no more")
    add("--limit", type=_count, metavar="S", help="begin no way after so many seconds, and say which were left out")
    add("--json", type=Path, metavar="FILE", help="write everything that was measured, after each step")
    add("--plot", type=Path, metavar="FILE", help="an SVG")
    options = parser.parse_args(arguments)
    check_files(parser, options)
    return options


def _missing(names: Sequence[str]) -> list[str]:
    return [name for name in names if importlib.util.find_spec(name) is None]


def _lines(command: list[str]) -> Iterator[str]:
    """What a process prints; if it ends badly, the last of what it said instead."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        process = subprocess.Popen(
            command, env=_environment.everything(), stdout=subprocess.PIPE, stderr=said, text=True, errors="replace"
        )
        with process:
            yield from process.stdout or ()
        if process.returncode not in (0, 1):
            yield MARK + json.dumps({"step": "process", "error": f"it ended with {process.returncode}"})
        elif process.returncode == 1:
            said.seek(0)
            last = [line for line in said.read().splitlines() if line.strip()][-3:]
            if last and last[-1].partition(":")[0].endswith(("Error", "Exception", "Unsupported")):
                yield MARK + json.dumps({"step": "process", "error": " ".join(last)[-2000:]})


def _measured(asked: Asked) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each step of a way, as it ends."""
    asked = dataclasses.replace(asked, started=time.time())
    command = [sys.executable, "-m", "kernelwright.bench.transformers._way", json.dumps(asked.json())]
    for line in _lines(command):
        if line.startswith(MARK):
            found: dict[str, Any] = json.loads(line.removeprefix(MARK))
            yield found.pop("step"), found


def _about(options: argparse.Namespace, device: str) -> dict[str, Any]:
    import torch

    shape = _shape(options, device)
    found = {name: _version(name) for name in ("transformers", "peft", "accelerate", "bitsandbytes", "liger-kernel")}
    machine = torch.cuda.get_device_name() if device == "cuda" else "the CPU"
    name = options.config or ("llama-8b-like" if device == "cuda" else "llama-tiny-like")
    model = f"{name}, {shape.layers} layers, vocabulary {shape.vocabulary}"
    return {"kernelwright": version(), "torch": torch.__version__, **found, "machine": machine, "model": model}


def _version(name: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _shape(options: argparse.Namespace, device: str) -> Shape:
    shape = SHAPES[options.config or ("llama-8b-like" if device == "cuda" else "llama-tiny-like")]
    changes = {"layers": options.layers, "vocabulary": options.vocabulary}
    return dataclasses.replace(shape, **{name: value for name, value in changes.items() if value})


class _Run:
    """What was found so far, printed and written after each step."""

    def __init__(self, about: dict[str, Any], json_file: Path | None) -> None:
        self.about, self.json, self.ways = about, json_file, dict[str, dict[str, Any]]()
        self.started = time.monotonic()

    def seconds(self) -> float:
        return time.monotonic() - self.started

    def keep(self, way: str, step: str, found: dict[str, Any]) -> None:
        self.ways.setdefault(way, {})[step] = found
        values = {key: value for key, value in found.items() if key != "logits"}
        print(f"{way}: {step}: " + ", ".join(f"{key} {_said(value)}" for key, value in values.items()), flush=True)
        self.write()

    def write(self, **more: Any) -> None:
        if self.json:
            found = {**self.about, "seconds": round(self.seconds()), "ways": self.ways, **more}
            self.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _said(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _left_out(way: str, device: str, run: _Run, limit: int | None) -> str | None:
    """Why a way is not measured."""
    if way in ON_A_GPU and device != "cuda":
        return "as it needs a GPU"
    if missing := _missing([NEEDS[way]] if way in NEEDS else []):
        return f"as {', '.join(missing)} is not installed"
    return f"after {run.seconds():.0f} s" if limit and run.seconds() > limit else None


def _steps(options: argparse.Namespace, way: str) -> tuple[str, ...]:
    steps = steps_of(way, options.steps)
    return tuple(step for step in steps if step in _goals.STEPS[way]) if options.goals else steps


def _measure(options: argparse.Namespace, device: str, path: str, run: _Run, work: Work) -> None:
    for way in options.ways:
        steps = _steps(options, way)
        if not steps:
            continue
        if (why := _left_out(way, device, run, options.limit)) is not None:
            print(f"{way}: left out, {why}", flush=True)
            continue
        if "train" in steps and _missing(["peft"]):
            print(f"{way}: train left out, as peft is not installed", flush=True)
            steps = tuple(step for step in steps if step != "train")
        asked = Asked(
            way, path, device, steps, options.threads, not options.plain_scales, counts=not options.goals, work=work
        )
        for step, found in _measured(asked):
            run.keep(way, step, found)


def _run(options: argparse.Namespace, device: str, path: str) -> dict[str, Steps]:
    work = QUICK if options.quick else BRIEF if options.goals else Work()
    run = _Run({**_about(options, device), "work": dataclasses.asdict(work)}, options.json)
    print(f"{run.about['model']}, random weights, on {run.about['machine']}", flush=True)
    _measure(options, device, path, run, work)
    print(f"\n{_report.table(run.ways)}\n\n{_report.share(run.about, run.ways)}")
    if options.goals:
        print(f"\n{_goals.table(work, run.ways)}\n\n{run.seconds():.0f} s")
        run.write(goals=list(_goals.judged(work, run.ways)))
    if options.plot and run.ways:
        options.plot.write_text(_plot.svg(run.about, run.ways), encoding="utf-8")
        print(f"picture: {options.plot}")
    return dict(run.ways)


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    if missing := _missing(["torch", "transformers", "accelerate"]):
        print(f"{', '.join(missing)} must be installed for this (pip install {' '.join(missing)})")
        return 1
    import torch

    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if device == "cuda" and not torch.cuda.is_available():
        print(f"--device cuda: torch {torch.__version__} sees no GPU; `python -m kernelwright` says why")
        return 1
    with tempfile.TemporaryDirectory(prefix="kernelwright-bench-") as path:
        shape = dataclasses.asdict(_shape(options, device))
        save = [sys.executable, "-m", "kernelwright.bench.transformers._save", json.dumps(shape), path, device]
        subprocess.run(save, env=_environment.everything(), check=True, stdout=subprocess.DEVNULL)
        ways = _run(options, device, path)
    wrong = [*_report.errors(ways), *_report.wrong(ways)]
    for line in wrong:
        print(line)
    print("FAILED" if wrong or not ways else "SUCCESS")
    return 1 if wrong or not ways else 0
