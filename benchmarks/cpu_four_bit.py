# SPDX-License-Identifier: MIT
"""Times the 4-bit operators on the CPU: `python benchmarks/cpu_four_bit.py --out FILE`.

NF4 in blocks of 64, float32 scales and quantized ones, beside torch's product with a dense weight, dequantize + that
product, bitsandbytes where it is installed (`bitsandbytes packed`: its weight reordered, as its layers do it for a CPU
with AVX512-BF16 in their first forward), and three ceilings: `read` sums a float32 tensor, of a product as many bytes
as its packed weight and scales; `copy` allocates and fills one from another; `STREAM` are its four kernels in float64,
by torch on all threads, in arrays of four times the last cache each, of which a call takes the next 2^21 elements.
Everybody takes turns of a tenth of a second, in another order each time, over as many weights as --megabytes hold, so
that they come from memory: calls follow each other as those of a model's layers do. Times are medians in microseconds.
`rate` is the time of `read` as a share of a product's (quantize and dequantize: their bytes a second, as a share of
`copy`). `GB/s` counts a product's packed weight and scales, and of STREAM's kernels what each reads and writes, as
STREAM does: not that a line is fetched before it is written. `of
STREAM` is the product's as a share of the fastest of the four. Results are compared before they are timed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import statistics
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Call = Callable[[int], Any]  # with the weight of this number

BLOCK = 64
PIECE = 1 << 21  # elements of STREAM's arrays that a call takes
TURN = 0.1  # seconds: a token of a model takes as long, some hundred products one after the other
MOST_ERROR = 1e-2  # of the largest result: that of its type's rounding


def _peer() -> Any:
    try:
        import bitsandbytes
    except ImportError:
        return None
    return bitsandbytes


def weights(n: int, k: int, dtype: Any, sets: int) -> list[dict[str, Any]]:
    """Random codes and scales: times do not depend on them."""
    import torch

    from kernelwright.ops.four_bit import _shared as four_bit

    blocks = n * k // BLOCK
    made = []
    for _ in range(sets):
        absmax = torch.rand(blocks)
        nested = torch.ops.kernelwright.quantize_4bit.absmax(absmax, absmax.mean(), four_bit.dynamic_map())
        held = four_bit.QuantizedAbsmax(*nested, four_bit.dynamic_map(), absmax.mean())
        packed = torch.randint(0, 256, (n * k // 2,), dtype=torch.uint8)
        made.append({"packed": packed, "absmax": absmax, "nested": held, "shape": (n, k), "dtype": dtype})
    return made


def products(
    x: Any, held: list[dict[str, Any]], dense: list[Any], bytes_: int, reordered: list[Any]
) -> dict[str, Call]:
    import torch

    import kernelwright as kw

    n = held[0]["shape"][0]

    def back(i: int) -> Any:
        w = held[i]
        return kw.dequantize_4bit(w["packed"], w["absmax"], w["shape"], BLOCK, "nf4", x.dtype)

    to_read = [torch.ones(bytes_ // 4) for _ in held]
    calls: dict[str, Call] = {
        "read": lambda i: to_read[i].sum(),
        "kernelwright": lambda i: kw.matmul_4bit(x, held[i]["packed"], held[i]["absmax"], n),
        "nested": lambda i: kw.matmul_4bit(x, held[i]["packed"], held[i]["nested"], n),
        "dequantize+torch": lambda i: torch.nn.functional.linear(x, back(i)),
        "torch": lambda i: torch.nn.functional.linear(x, dense[i % len(dense)]),
    }
    if (peer := _peer()) is not None:
        states = [_state(peer, w, x.dtype) for w in held]
        calls["bitsandbytes"] = lambda i: peer.matmul_4bit(x, held[i]["packed"].view(-1, 1).t(), states[i])
    if reordered:
        calls["bitsandbytes packed"] = lambda i: peer.matmul_4bit(x, *reordered[i])
    return calls


def reorder(held: list[dict[str, Any]]) -> list[Any]:
    """Weights and states as bitsandbytes' layers hold them after their first forward; none where they are not."""
    peer = _peer()
    if peer is None or not peer.functional.has_avx512bf16():
        return []
    from bitsandbytes.functional import _convert_weight_packed_for_cpu

    return [_convert_weight_packed_for_cpu(w["packed"], _state(peer, w, w["dtype"])) for w in held]


def _state(peer: Any, w: dict[str, Any], dtype: Any) -> Any:
    import torch

    from kernelwright.ops.four_bit import _shared as four_bit

    return peer.functional.QuantState(
        w["absmax"], torch.Size(w["shape"]), torch.tensor(four_bit.VALUES["nf4"]), BLOCK, "nf4", dtype
    )


def tensors(held: list[dict[str, Any]], dense: list[Any]) -> dict[str, Call]:
    import kernelwright as kw

    def back(w: dict[str, Any]) -> Any:
        return kw.dequantize_4bit(w["packed"], w["absmax"], w["shape"], BLOCK, "nf4", w["dtype"])

    calls: dict[str, Call] = {
        "dequantize": lambda i: back(held[i]),
        "quantize": lambda i: kw.quantize_4bit(dense[i % len(dense)], BLOCK, "nf4"),
    }
    if (peer := _peer()) is not None:
        states = [_state(peer, w, w["dtype"]) for w in held]
        calls["bitsandbytes dequantize"] = lambda i: peer.functional.dequantize_4bit(
            held[i]["packed"].view(-1, 1), states[i]
        )
        calls["bitsandbytes quantize"] = lambda i: peer.functional.quantize_4bit(
            dense[i % len(dense)], blocksize=BLOCK, quant_type="nf4"
        )
    return calls


def timed(calls: dict[str, Call], sets: int, seconds: float) -> dict[str, float]:
    """Medians, in microseconds; each turn goes on with the weight after the last turn's."""
    from kernelwright.bench.harness.cpu import Batches

    batches = {name: Batches([partial(call, i) for i in range(sets)], TURN) for name, call in calls.items()}
    for batch in batches.values():
        batch.settle()
    order, start = list(batches.values()), time.perf_counter()
    while time.perf_counter() - start < seconds or len(order[0].samples) < 3:
        random.shuffle(order)
        for batch in order:
            batch.samples.append(batch.run())
    return {name: float(f"{statistics.median(batch.samples):.4g}") for name, batch in batches.items()}


def stream(cache: int) -> tuple[dict[str, Call], dict[str, int]]:
    """STREAM's kernels, and how many bytes each counts in a call."""
    import torch

    pieces = -(-4 * cache // (8 * PIECE))
    a, b, c = (torch.full((pieces, PIECE), value, dtype=torch.float64) for value in (1.0, 2.0, 0.0))
    kernels: dict[str, tuple[int, Call]] = {
        "STREAM copy": (2, lambda i: c[i].copy_(a[i])),
        "STREAM scale": (2, lambda i: torch.mul(c[i], 3.0, out=b[i])),
        "STREAM add": (3, lambda i: torch.add(a[i], b[i], out=c[i])),
        "STREAM triad": (3, lambda i: torch.add(b[i], c[i], alpha=3.0, out=a[i])),
    }
    turns = {name: itertools.cycle(range(pieces)) for name in kernels}
    calls = {
        name: lambda _, name=name, kernel=kernel: kernel(next(turns[name])) for name, (_, kernel) in kernels.items()
    }
    return calls, {name: 8 * PIECE * arrays for name, (arrays, _) in kernels.items()}


def beside_stream(us: dict[str, float], bytes_: dict[str, int]) -> dict[str, Any]:
    """A product's rate, its kernels', and the share it has of the fastest."""
    rates = {name: round(count / us[name] / 1e3, 2) for name, count in bytes_.items()}
    product = rates.pop("kernelwright")
    return {"GB/s": {"kernelwright": product, **rates}, "of STREAM": round(product / max(rates.values()), 3)}


def ceilings(megabytes: int) -> dict[str, Call]:
    import torch

    big = [torch.ones(megabytes << 18) for _ in range(2)]
    return {"read": lambda i: big[i % 2].sum(), "copy": lambda i: big[i % 2].clone()}


def measure(
    n: int, k: int, rows: list[int], dtype: Any, options: Any, kernels: Any
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each case's name and figures."""
    import torch

    packed_bytes = n * k // 2 + n * k // BLOCK * 4
    sets = max(2, (options.megabytes << 20) // packed_bytes)
    held = weights(n, k, dtype, sets)
    dense = [torch.randn(n, k).to(dtype) for _ in range(max(1, min(sets, (options.megabytes << 20) // (n * k * 2))))]
    size = options.megabytes
    reordered = reorder(held)
    limits = timed(ceilings(size), 2, options.seconds)
    rates = {name: (size << 20) * (1 if name == "read" else 2) / us for name, us in limits.items()}
    yield f"ceilings beside {n}x{k}", {f"{name}, MB/s": round(rate) for name, rate in rates.items()}
    for m in rows:
        x = torch.randn(m, k).to(dtype)
        calls = products(x, held, dense, packed_bytes, reordered)
        exact = torch.nn.functional.linear(x.float(), _dense_of(held[0]))
        for name in calls.keys() & {"kernelwright", "bitsandbytes", "bitsandbytes packed"}:
            error = float((calls[name](0).float() - exact).abs().max() / exact.abs().max())
            if error > MOST_ERROR:
                raise SystemExit(f"{m} rows of {n}x{k}: {name} is off by {error:.2g} of the largest result")
        us = timed(calls | kernels[0], sets, options.seconds)
        beside = beside_stream(us, {"kernelwright": packed_bytes, **kernels[1]})
        yield f"matmul {m}x{k}x{n}", {"us": us, "rate": round(us["read"] / us["kernelwright"], 3), **beside}
    us = timed(tensors(held, dense), sets, options.seconds)
    moved = packed_bytes + n * k * dense[0].element_size()
    for name in ("dequantize", "quantize"):
        both = {key: value for key, value in us.items() if key in (name, f"bitsandbytes {name}")}
        yield f"{name} {n}x{k}", {"us": both, "rate": round(moved / us[name] / rates["copy"], 3)}


def _dense_of(w: dict[str, Any]) -> Any:
    import kernelwright as kw

    return kw.dequantize_4bit(w["packed"], w["absmax"], w["shape"], BLOCK, "nf4")


def _shapes(text: str) -> list[tuple[int, int]]:
    return [(int(n), int(k)) for n, _, k in (part.partition("x") for part in text.split(","))]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", type=_shapes, default=_shapes("4096x4096"), metavar="NxK,…")
    parser.add_argument("--rows", type=lambda t: [int(p) for p in t.split(",")], default=[1, 8, 64], metavar="LIST")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--megabytes", type=int, default=512, help="of packed weights that take turns")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each comparison")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="cases measured before stay in it")
    options = parser.parse_args(arguments)
    import torch

    from benchmarks.harness import record
    from kernelwright import ops
    from kernelwright.bench.harness import cpu

    ops.register()
    device = cpu.Cpu(options.threads)
    known = json.loads(options.out.read_text(encoding="utf-8"))["cases"] if options.out.exists() else {}
    peer = _peer()
    about = record.facts(device, None) | {
        "what": __doc__.partition("\n\n")[2].strip(),
        "command": " ".join(["python", "benchmarks/cpu_four_bit.py", *arguments]),
        "bitsandbytes": None if peer is None else peer.__version__,
    }
    kernels = stream(device.cache)
    for n, k in options.shapes:
        for name, entry in measure(n, k, options.rows, getattr(torch, options.dtype), options, kernels):
            known[f"{options.dtype} {name}"] = entry
            print(f"{options.dtype} {name:30} {entry}", flush=True)
            lines = ",\n".join(f"  {json.dumps(case)}: {json.dumps(entry)}" for case, entry in sorted(known.items()))
            options.out.write_text(json.dumps(about, indent=1)[:-2] + f',\n "cases": {{\n{lines}\n }}\n}}\n')
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
