# SPDX-License-Identifier: MIT
"""Operators beside what else is installed: all get the same arguments, are compared with float64 and timed in turns.

On a GPU with the sizes of models, on a CPU with small ones. Who is not here is named and left out. A wrong result of a
peer has no figure; one of kernelwright's has none either, and ends the command with 1.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelwright import _environment, errors, ops
from kernelwright.bench._plot import check_files
from kernelwright.bench.operators import _plot, _report, _run
from kernelwright.bench.operators._peers import PEERS, USUAL, here

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kernelwright.bench.harness.subject import Subject
    from kernelwright.bench.operators._run import Run


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m kernelwright bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--against",
        default=",".join(USUAL),
        metavar="LIST",
        help=f"some of {', '.join(PEERS)}; default: {','.join(USUAL)}",
    )
    add("--ops", metavar="LIST", help="such as rms_norm,swiglu; default: all")
    add("--cases", metavar="GLOB", action="append", help='such as "default-*-bfloat16"; may be given several times')
    add("--device", choices=("cpu", "cuda"), help="default: a GPU if torch sees one")
    add("--threads", type=int, metavar="N", help="on the CPU; default: torch's")
    add("--whole", action="store_true", help="every size of every operator's record, on a CPU too")
    add("--quick", action="store_true", help="a small call of each overload: says that it works and no more")
    add("--json", type=Path, metavar="FILE", help="write everything that was measured")
    add("--plot", type=Path, metavar="FILE", help="an SVG")
    add(
        "--from", type=Path, nargs="+", dest="files", metavar="FILE", help="measure nothing, show these files of --json"
    )
    options = parser.parse_args(arguments)
    options.against = list(dict.fromkeys(filter(None, options.against.split(","))))
    if unknown := sorted(set(options.against) - set(PEERS)):
        parser.error(f"--against: nobody is called {', '.join(unknown)}; there are {', '.join(PEERS)}")
    if unknown := sorted(set(options.ops.split(",") if options.ops else ()) - set(ops.names())):
        parser.error(f"--ops: no operator {', '.join(unknown)}; there are {', '.join(ops.names())}")
    check_files(parser, options)
    return options


def _device(asked: str | None, threads: int | None) -> Any:
    import torch

    kind = asked or ("cuda" if torch.cuda.is_available() else "cpu")
    if kind == "cuda":
        from kernelwright.bench.harness.cuda import Gpu

        return Gpu()
    from kernelwright.bench.harness.cpu import Cpu

    return Cpu(threads)


def _hindered(device: str | None) -> str:
    """Why nothing can be measured here; empty if it can."""
    settings = _environment.read()
    if settings.disable:
        return f"{_environment.DISABLE} is set: every operator would be torch's; unset it"
    if _environment.under_bitsandbytes():
        return f"{_environment.BITSANDBYTES} is set: bitsandbytes would be timed with kernelwright's kernels; unset it"
    try:
        ops.register()
    except errors.TorchMissing as error:
        return str(error)
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        return f"--device cuda: torch {torch.__version__} sees no GPU; `python -m kernelwright` says why"
    return ""


class _Progress:
    """What is being measured, on a terminal alone: it is overwritten by what comes next."""

    def __init__(self, count: int) -> None:
        self.count, self.done, self.seen = count, 0, sys.stderr.isatty()

    def begin(self, name: str) -> None:
        self.done += 1
        if self.seen:
            sys.stderr.write(f"\r\x1b[K[{self.done}/{self.count}] {name}")
            sys.stderr.flush()

    def end(self) -> None:
        if self.seen:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _measured(
    run: Run, subjects: Sequence[tuple[Subject, set[str]]], device: Any, table: _report.Table, *, quick: bool
) -> list[str]:
    """Fills the run, a line of the table as soon as there is one; what is wrong of ours."""
    from kernelwright.bench.harness.check import WrongResult
    from kernelwright.bench.harness.measure import measure

    progress, wrong = _Progress(len(subjects)), []
    for one, beside in subjects:
        progress.begin(one.name)
        try:
            run["cases"][one.name] = _run.entry(measure(one, device, beside.__contains__, quick=quick))
        except WrongResult as error:
            wrong.append(f"WRONG {error}")
            run["cases"][one.name] = {"bytes": one.bytes, "us": {}, "notes": [wrong[-1]]}
        progress.end()
        print(table.line(one.name, run["cases"][one.name]), flush=True)
    return wrong


def _shown(run: Run, options: argparse.Namespace) -> None:
    """What stands below the table, and the files."""
    print()
    for note in _report.notes(run):
        print(note)
    if gigabytes := _report.best(run):
        print(f"a copy moves {gigabytes:,.0f} GB/s here")
    if line := _report.share(run):
        print(f"\n{line}")
    if options.json:
        options.json.write_text(_run.text(run), encoding="utf-8")
    if options.plot:
        options.plot.write_text(_plot.svg(run), encoding="utf-8")
        print(f"picture: {options.plot}")


def _from_files(options: argparse.Namespace) -> int:
    try:
        run = _run.joined(options.files)
    except _run.Apart as error:
        print(error)
        return 1
    table = _report.Table(run["cases"], [name for name in _report.columns(run["peers"]) if name in _run.ratios(run)])
    print(_report.heading(run))
    print(table.head())
    for name, case in run["cases"].items():
        print(table.line(name, case))
    _shown(run, options)
    return 0


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    if options.files:
        return _from_files(options)
    if why := _hindered(options.device):
        print(why)
        return 1
    from kernelwright.bench.operators._cases import beside, choose

    device = _device(options.device, options.threads)
    asked = {word: here(word, device.kind) for word in options.against}
    peers = {word: version for word, (version, _) in asked.items() if version}
    absent = {word: why for word, (_, why) in asked.items() if why}
    names = options.ops.split(",") if options.ops else None
    columns = _report.columns(peers)
    chosen = choose(names, options.cases or ["*"], device.kind, whole=options.whole, quick=options.quick)
    subjects = [(one, who) for one in chosen if (who := beside(one, device.kind, columns))]
    run = _run.about(device, peers, absent, _elsewhere_too(arguments))
    print(_report.heading(run))
    if len(subjects) < len(chosen):
        print(f"{len(chosen) - len(subjects)} of {len(chosen)} cases have nobody beside kernelwright here")
    shown = [name for name in columns if any(name in who for _, who in subjects)]
    table = _report.Table([one.name for one, _ in subjects], shown)
    print(table.head(), flush=True)
    wrong = _measured(run, subjects, device, table, quick=options.quick)
    _shown(run, options)
    print("\n".join([*wrong, "FAILED"]) if wrong else "SUCCESS")
    return 1 if wrong else 0


def _elsewhere_too(arguments: Sequence[str]) -> list[str]:
    """The arguments that say what is measured; where files go differs from place to place."""
    rest, kept = iter(arguments), []
    for argument in rest:
        if argument in {"--json", "--plot"}:
            next(rest, None)
        elif not argument.startswith(("--json=", "--plot=")):
            kept.append(argument)
    return kept
