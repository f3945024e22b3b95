# SPDX-License-Identifier: MIT
"""Times optimizers and 8-bit integers on the CPU: `python benchmarks/cpu_eight_bit.py --out FILE`.

Steps of optimizers, beside a copy: `of copy` is how many bytes a step reads and writes in a second (its parameter's
and states', and the gradient's once) as a share of those of `copy`, which fills one tensor from another. Products of
8-bit integers with int32 sums beside `torch._int_mm`, and up to 8 rows beside STREAM's kernels (`of STREAM`: the
weight's bytes a second as a share of the fastest of the four, which count as STREAM does); `times torch` is its time as
a multiple of ours. A linear layer in LLM.int8 beside bitsandbytes' where it is installed, and beside the same layer in
x's own type.
Everybody takes turns of a tenth of a second, in another order each time, over as many tensors as --megabytes hold, so
that they come from memory. Times are medians in microseconds. Products and layers are compared before they are timed.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.cpu_four_bit import beside_stream, stream, timed  # noqa: E402 - from ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.cpu_four_bit import Call

STEPS = {
    # bytes of an element that a step reads and writes, beside its parameter's and its gradient's
    "AdamW8bit": 4,
    "AdamW": 16,
    "Lion8bit": 2,
    "Lion": 8,
    "SGD8bit": 2,
    "RMSprop8bit": 2,
    "AdEMAMix8bit": 6,
}
MOST_ERROR = 0.03  # of the largest result of a layer: that of the 8-bit codes of both factors


def _sets(megabytes: int, bytes_: int) -> int:
    return max(2, (megabytes << 20) // bytes_)


def steps(options: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """One parameter's step, of each optimizer and type."""
    import torch

    from kernelwright import optim

    for dtype in (torch.float32, torch.bfloat16):
        for name, of_states in STEPS.items():
            moved = options.elements * (3 * dtype.itemsize + of_states)
            sets, made = _sets(options.megabytes, moved), []
            for _ in range(sets):
                p = torch.nn.Parameter(torch.randn(options.elements).to(dtype))
                p.grad = torch.randn(options.elements).to(dtype)
                more = {"momentum": 0.9} if name == "SGD8bit" else {}
                made.append(getattr(optim, name)([p], lr=1e-6, **more))
            big = [torch.ones(moved // 8) for _ in range(2 * sets)]  # a copy reads a half of the bytes and writes one
            calls: dict[str, Call] = {
                "kernelwright": lambda i, made=made: made[i].step(),
                "copy": lambda i, big=big: big[2 * i].copy_(big[2 * i + 1]),
            }
            us = timed(calls, sets, options.seconds)
            yield f"{name} {dtype} {options.elements}", {"us": us, "of copy": round(us["copy"] / us["kernelwright"], 3)}


def products(options: Any, kernels: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    import torch

    import kernelwright as kw

    for n, k in options.shapes:
        sets = _sets(options.megabytes, n * k)
        held = [torch.randint(-127, 128, (n, k), dtype=torch.int8) for _ in range(sets)]
        for m in options.rows:
            x = torch.randint(-127, 128, (m, k), dtype=torch.int8)
            calls: dict[str, Call] = {
                "kernelwright": lambda i, x=x, held=held: kw.matmul_int8(x, held[i]),
                "torch": lambda i, x=x, held=held: torch._int_mm(x, held[i].t()),  # noqa: SLF001 - it has no public name
            }
            if not torch.equal(calls["kernelwright"](0), (x.double() @ held[0].double().t()).int()):
                raise SystemExit(f"{m} rows of {n}x{k}: sums differ")
            us = timed(calls | (kernels[0] if m <= 8 else {}), sets, options.seconds)
            found = {"us": us, "times torch": round(us["torch"] / us["kernelwright"], 3)}
            if m <= 8:
                found |= beside_stream(us, {"kernelwright": n * k, **kernels[1]})
            yield f"matmul_int8 {m}x{k}x{n}", found


def linear(options: Any, peer: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Layers as they infer, and as they train: there the weight is made wide in each call, here and in bitsandbytes."""
    import torch

    from kernelwright import nn

    dtype = getattr(torch, options.dtype)

    def quantized(kind: Any, dense: Any) -> Any:
        made = kind(dense.in_features, dense.out_features, bias=False, has_fp16_weights=False)
        made.load_state_dict(dense.state_dict())
        return made.to("cpu").requires_grad_(False)

    for n, k in options.shapes:
        sets = _sets(options.megabytes, n * k)
        dense = [torch.nn.Linear(k, n, bias=False, dtype=dtype) for _ in range(sets)]
        by = {"kernelwright": [quantized(nn.Linear8bitLt, layer) for layer in dense], "torch": dense}
        if peer is not None:
            by["bitsandbytes"] = [quantized(peer.nn.Linear8bitLt, layer) for layer in dense]
        for m, training in [(m, training) for training in (False, True) for m in options.rows]:
            x = torch.randn(m, k).to(dtype)
            for layer in (layer for layers in by.values() for layer in layers):
                layer.train(training)
            calls: dict[str, Call] = {name: lambda i, x=x, layers=layers: layers[i](x) for name, layers in by.items()}
            with torch.no_grad():
                exact = torch.nn.functional.linear(x.float(), dense[0].weight.float())
                for name, call in calls.items():
                    error = float((call(0).float() - exact).abs().max() / exact.abs().max())
                    if error > MOST_ERROR:
                        raise SystemExit(f"{m} rows of {n}x{k}: the layer of {name} is off by {error:.2g}")
                us = timed(calls, sets, options.seconds)
            times = {f"times {name}": round(us[name] / us["kernelwright"], 2) for name in us if name != "kernelwright"}
            said = f"Linear8bitLt {m}x{k}x{n}, {options.dtype}{', training' if training else ''}"
            yield said, {"us": us, **times}


def _shapes(text: str) -> list[tuple[int, int]]:
    return [(int(n), int(k)) for n, _, k in (part.partition("x") for part in text.split(","))]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", type=_shapes, default=_shapes("4096x4096"), metavar="NxK,…")
    parser.add_argument(
        "--rows", type=lambda t: [int(p) for p in t.split(",")], default=[1, 8, 64, 256], metavar="LIST"
    )
    parser.add_argument("--elements", type=int, default=1 << 23, help="of an optimizer's parameter")
    parser.add_argument("--dtype", default="bfloat16", help="of what goes into a layer")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--megabytes", type=int, default=512, help="of tensors that take turns")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each comparison")
    parser.add_argument("--parts", nargs="+", default=["steps", "products", "layers"])
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="cases measured before stay in it")
    options = parser.parse_args(arguments)

    from benchmarks.harness import record
    from kernelwright import ops
    from kernelwright.bench.harness import cpu

    try:
        import bitsandbytes as peer
    except ImportError:
        peer = None
    ops.register()
    device = cpu.Cpu(options.threads)
    known = json.loads(options.out.read_text(encoding="utf-8"))["cases"] if options.out.exists() else {}
    about = record.facts(device, None) | {
        "what": __doc__.partition("\n\n")[2].strip(),
        "command": " ".join(["python", "benchmarks/cpu_eight_bit.py", *arguments]),
        "bitsandbytes": None if peer is None else peer.__version__,
    }
    parts = {
        "steps": lambda: steps(options),
        "products": lambda: products(options, stream(device.cache)),
        "layers": lambda: linear(options, peer),
    }
    for part in options.parts:
        for name, entry in parts[part]():
            known[name] = entry
            print(f"{name:40} {entry}", flush=True)
            lines = ",\n".join(f"  {json.dumps(case)}: {json.dumps(entry)}" for case, entry in sorted(known.items()))
            options.out.write_text(json.dumps(about, indent=1)[:-2] + f',\n "cases": {{\n{lines}\n }}\n}}\n')
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
