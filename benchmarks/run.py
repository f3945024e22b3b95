# SPDX-License-Identifier: MIT
"""Times the operators beside their limit and their peers: `./kw bench -- …`, or this file with an installed wheel.

The limit of a case is what a copy of as many bytes takes, in the same run (or its arithmetic, where that is longer).
Every call is compared with float64 before it is timed. Goals stand in ops/<family>/goals.toml;
results go to ops/<family>/results/<op>-<device>.json, a picture of all to results/.
"""

from __future__ import annotations

import argparse
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--ops", metavar="LIST", help="such as rms_norm,swiglu; default: all")
    add("--cases", metavar="GLOB", action="append", help='such as "default-*-bfloat16"; may be given several times')
    add("--device", choices=("cpu", "cuda"), help="default: a GPU if torch sees one")
    add("--peers", metavar="GLOB", default="*", help="whom to time beside ours: eager, compile, liger, …; default: all")
    add("--threads", type=int, metavar="N", help="on the CPU; default: torch's")
    add("--quick", action="store_true", help="two cases an overload, fewer rounds, nothing is recorded without --out")
    add("--out", type=Path, metavar="DIR", help="where results go; default: ops/<family>/results")
    add("--no-plot", action="store_true", help="no picture")
    add("--plot-from", type=Path, nargs="+", metavar="FILE", help="measure nothing, draw these results")
    add("--commit", metavar="TEXT", help="what to record where the tree is not under git")
    return parser.parse_args(arguments)


def _device(asked: str | None, threads: int | None) -> Any:
    import torch

    kind = asked or ("cuda" if torch.cuda.is_available() else "cpu")
    if kind == "cuda":
        if not torch.cuda.is_available():
            raise SystemExit(
                f"--device cuda: torch {torch.__version__} sees no GPU here; --device cpu times the CPU path"
            )
        from kernelwright.bench.harness.cuda import Gpu

        return Gpu()
    from kernelwright.bench.harness.cpu import Cpu

    return Cpu(threads)


def _draw(files: list[Path], out: Path) -> None:
    from benchmarks.harness.plot import plot_files

    try:
        plot_files(files, out)
    except ModuleNotFoundError as error:
        print(
            f"no picture: {error.name} is not installed; draw it elsewhere with --plot-from {' '.join(map(str, files))}"
        )
    else:
        print(out)


def main(arguments: list[str]) -> int:
    from benchmarks.harness import record

    options = _options(arguments)
    out = options.out or record.SHARED
    if options.plot_from:
        _draw(options.plot_from, out / f"{options.plot_from[0].stem.partition('-')[2]}.png")
        return 0
    from benchmarks.harness import goals, report
    from kernelwright import ops
    from kernelwright.bench.harness import subject
    from kernelwright.bench.harness.measure import measure

    ops.register()
    device = _device(options.device, options.threads)
    names = options.ops.split(",") if options.ops else None
    subjects = subject.choose(names, options.cases or ["*"], quick=options.quick)
    about = record.facts(device, options.commit)
    print(f"{about['device']}, torch {about['torch']}, kernelwright {about['kernelwright']} at {about['commit']}")
    recorded = bool(options.out) or not options.quick
    results, missed, files = [], [], []
    for one in subjects:
        if not results or results[-1].subject.op is not one.op:
            print(report.head(one.op.name))
        results.append(measure(one, device, lambda name: fnmatchcase(name, options.peers), quick=options.quick))
        missed.append(goals.missed(results[-1], device) if results[-1].us else [])
        print(report.line(results[-1], missed[-1]), flush=True)
        if recorded:  # a run that is cut off has these too
            files = record.write(options.out, device, about, results)
    print(report.summary(results, missed))
    if recorded:
        print("\n".join(map(str, files)))
        if not options.no_plot:
            _draw(files, out / f"{record.slug(device.name)}.png")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
