# SPDX-License-Identifier: MIT
"""Times operators on the CPU over numbers of rows: `python benchmarks/cpu_rows.py --ops rms_norm --out FILE`.

Every overload that the records time, in every element type, beside torch eager and a copy (new memory, filled from
other memory, as many bytes in all), in turns, freed memory kept by the process; all results are checked first. Beside
them a loop that reads the inputs, writes the results and computes nothing, without fetches and with some 2 KiB ahead.
`copy`, `eager` and `loop` (the faster of the two) in the result are how many times as fast as these a case is.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

if TYPE_CHECKING:
    from collections.abc import Iterator

DTYPES = ("float32", "float16", "bfloat16")


def _cases(op: Any, rows: list[int], cols: list[int]) -> Iterator[Any]:
    """The first benchmark case of each overload, resized."""
    for overload in dict.fromkeys(case.overload for case in op.benchmarks):
        like = next(case for case in op.benchmarks if case.overload == overload)
        for width in cols:
            for count in rows:
                yield from (replace(like, shape=(count, width), dtype=dtype) for dtype in DTYPES)


def _entry(result: Any) -> dict[str, Any]:
    us = {name: float(f"{value:.4g}") for name, value in result.us.items()}
    eager, loops = result.against("eager"), [took for name, took in result.us.items() if name.startswith("loop")]
    return {
        "copy": round(result.share, 3),
        "eager": None if eager is None else round(eager, 2),
        "loop": round(min(loops) / result.ours, 3) if loops else None,
        "us": us,
    }


def _loops(op: Any, one: Any, threads: int) -> dict[str, Any]:
    """Beside what reads and writes rows of one type alone, no products, and where a compiler is at hand."""
    from benchmarks.harness import cpu_loop

    if op.name == "linear" or any(overload.fixed for overload in op.overloads) or one.rows <= 2:
        return {}
    try:
        return cpu_loop.contestants(one, threads)
    except OSError as error:
        print(f"no loop beside it: {error}", file=sys.stderr)
        return {}


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", required=True, metavar="LIST")
    parser.add_argument("--rows", type=_numbers, default=[64, 128, 256, 512, 4096], metavar="LIST")
    parser.add_argument("--cols", type=_numbers, default=[4096], metavar="LIST")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--megabytes", type=int, default=1024, help="of working sets that take turns, at most")
    parser.add_argument("--commit", metavar="TEXT", help="what to record where the tree is not under git")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="cases measured before stay in it")
    options = parser.parse_args(arguments)
    from benchmarks.harness import record
    from kernelwright import ops
    from kernelwright.bench.harness import cpu, measure, subject

    ops.register()
    cpu.MOST_BYTES = options.megabytes << 20
    device = cpu.Cpu(options.threads)
    known = json.loads(options.out.read_text(encoding="utf-8"))["cases"] if options.out.exists() else {}
    for op in map(ops.record, options.ops.split(",")):
        for case in _cases(op, options.rows, options.cols):
            one = subject.Subject(op, case)
            loops = _loops(op, one, device.threads)
            result = measure.measure(one, device, lambda name: name == "eager", quick=False, unchecked=loops)
            known[one.name] = _entry(result)
            print(f"{one.name:60} {known[one.name]}", flush=True)
    about = record.facts(device, options.commit)
    about |= {
        "what": __doc__.partition("\n\n")[2].strip(),
        "command": " ".join(["python", "benchmarks/cpu_rows.py", *arguments]),
    }
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in sorted(known.items()))
    options.out.write_text(json.dumps(about, indent=1)[:-2] + f',\n "cases": {{\n{lines}\n }}\n}}\n', encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
