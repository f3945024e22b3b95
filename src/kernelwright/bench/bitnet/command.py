# SPDX-License-Identifier: MIT
"""How fast a stack of BitNet's feed-forward blocks runs with ternary weights, beside the same in bfloat16.

Weights are random. Several GPUs share the rows of the batch; each has all weights, and a process of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelwright import _environment
from kernelwright._files import version
from kernelwright.bench._plot import _text

if TYPE_CHECKING:
    from collections.abc import Sequence

_COLORS = {2: "#003d5b", 16: "#d1495b"}
_WORDS = {2: "ternary", 16: "bfloat16"}


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


_count.__name__ = "positive number"  # what argparse calls it in an error


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m kernelwright bench bitnet", description=__doc__)
    parser.add_argument("--num-gpus", type=int, default=0, help="0: the CPU (the default)")
    parser.add_argument("--batch-size", type=_count, default=1, help="rows, at least one a GPU")
    parser.add_argument("--seq-length", type=_count, default=1, help="rows of each of the batch")
    parser.add_argument("--hidden-size", type=_count, default=2560)
    parser.add_argument("--intermediate-size", type=_count, help="2.7 times the hidden size without it")
    parser.add_argument("--num-layers", type=_count, default=4)
    parser.add_argument(
        "--quantization-bits", type=int, choices=(2, 16), nargs="+", default=[2, 16], help="2: ternary; 16: bfloat16"
    )
    parser.add_argument("--repeats", type=_count, default=20)
    parser.add_argument("--json", type=Path, help="where to write what was found")
    parser.add_argument("--plot", type=Path, help="where to write a picture, an SVG")
    return parser.parse_args(arguments)


def _started(asked: Sequence[Any], gpu: int | None) -> subprocess.Popen[str]:
    device = "cpu" if gpu is None else f"cuda:{gpu}"
    command = [sys.executable, "-m", "kernelwright.bench.bitnet._one", *map(str, asked), device]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=_environment.everything())


def _measured(options: argparse.Namespace, bits: int) -> dict[str, Any]:
    """All GPUs at once; the slowest counts."""
    gpus: list[int | None] = [*range(options.num_gpus)] or [None]
    rows, hidden = options.batch_size * options.seq_length, options.hidden_size
    intermediate = options.intermediate_size or (hidden * 27 // 10 + 127) // 128 * 128
    started = [
        _started((bits, -(-rows // len(gpus)), hidden, intermediate, options.num_layers, options.repeats), gpu)
        for gpu in gpus
    ]
    said = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise RuntimeError(f"{_WORDS[bits]}: a process ended with {[process.returncode for process in started]}")
    slowest = max(float(text.split()[-1]) for text in said)
    weights = options.num_layers * 3 * hidden * intermediate
    return {"bits": bits, "seconds": slowest, "rows_a_second": rows / slowest, "weight_bytes": weights * bits // 8}


def _svg(heading: str, results: Sequence[dict[str, Any]]) -> str:
    most = max(each["rows_a_second"] for each in results)
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 420 260" width="420" height="260">',
        '<rect width="100%" height="100%" fill="#fff"/>',
        _text(20, 26, "rows a second (more is better)", 'font-size="14" fill="#111"', "start"),
        _text(20, 44, heading, 'font-size="11" fill="#555"', "start"),
    ]
    for place, each in enumerate(results):
        height, x = 150 * each["rows_a_second"] / most, 60 + 160 * place
        parts.append(
            f'<rect x="{x}" y="{220 - height:.1f}" width="100" height="{height:.1f}" fill="{_COLORS[each["bits"]]}"/>'
        )
        parts.append(_text(x + 50, 214 - height, f"{each['rows_a_second']:.0f}", 'font-size="12" fill="#333"'))
        parts.append(_text(x + 50, 238, _WORDS[each["bits"]], 'font-size="12" fill="#333"'))
    return "\n".join([*parts, "</svg>"]) + "\n"


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    if options.num_gpus < 0 or options.batch_size < options.num_gpus:
        print(
            f"--num-gpus {options.num_gpus}: it must not be negative, nor more than --batch-size {options.batch_size}"
        )
        return 1
    where = f"{options.num_gpus} GPUs" if options.num_gpus else "the CPU"
    rows = options.batch_size * options.seq_length
    heading = f"{options.num_layers} layers of {options.hidden_size}, {rows} rows, {where}"
    print(f"kernelwright {version()}: {heading}")
    results = []
    for bits in dict.fromkeys(options.quantization_bits):
        try:
            found = _measured(options, bits)
        except RuntimeError as error:
            print(f"not measured. {error}")
            return 1
        results.append(found)
        print(
            f"{_WORDS[bits]:>9}: {1e3 * found['seconds']:.3f} ms, {found['rows_a_second']:.0f} rows a second, "
            f"weights {found['weight_bytes'] / 2**20:.1f} MiB"
        )
    if options.json:
        asked = {name: value for name, value in vars(options).items() if name not in ("json", "plot")}
        text = json.dumps({"kernelwright": version(), **asked, "results": results}, indent=1) + "\n"
        options.json.write_text(text, encoding="utf-8")
    if options.plot:
        options.plot.write_text(_svg(heading, results), encoding="utf-8")
        print(f"picture: {options.plot}")
    return 0
