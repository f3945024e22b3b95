# SPDX-License-Identifier: MIT
"""`python -m kernelwright.demo [--quick]`: what kernelwright does, with numbers from this machine.

Every operator is compared with its definition in float64 and timed beside torch eager; then a small transformer block
with kernelwright's modules runs beside the same block with torch's. Exits with 0, or with 1 and what was wrong.
"""

from __future__ import annotations

import argparse
import math
import secrets
import statistics
import sys
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kernelwright import _files, errors, ops
from kernelwright.ops._calls import calls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kernelwright.ops._record import Case, Op

# What the case of each operator moves, about. Small calls on a GPU take what Python and torch's dispatcher take.
QUICK_BYTES = {"cpu": (1 << 23,), "cuda": (1 << 28,)}
BYTES = (1 << 16, 1 << 23, 1 << 27)
ROUNDS, ROUND_SECONDS = 5, 0.02
LONG_SECONDS = 0.2  # a call of so long, such as quantization written in plain torch, is timed once, after another one
BLOCK_ERROR = 2e-2  # of a block in bfloat16, whose every layer rounds to 3 digits


def _seconds(call: Callable[[], Any], device: str) -> float:
    """Median time of a call over a few rounds; the inputs stay in cache, so that it flatters everybody alike."""
    import torch

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    def run(count: int) -> float:
        wait()
        start = time.perf_counter()
        for _ in range(count):
            call()
        wait()
        return (time.perf_counter() - start) / count

    if run(1) > LONG_SECONDS:
        return run(1)
    run(1)
    count = max(1, int(ROUND_SECONDS / run(1)))
    return statistics.median(run(count) for _ in range(ROUNDS))


def _tensors(values: Any) -> list[Any]:
    return [] if values is None else list(values) if isinstance(values, (tuple, list)) else [values]


def _copies(arguments: Sequence[Any], *, wide: bool = False) -> list[Any]:
    return [a if not hasattr(a, "clone") else a.double() if wide else a.clone() for a in arguments]


def _error(op: Op, case: Case, arguments: tuple[Any, ...]) -> float:
    """The operator's largest on these arguments, as a share of what its record allows; also of what it writes to."""
    import torch

    target = getattr(getattr(torch.ops.kernelwright, op.name), case.overload)
    schema = target._schema.arguments  # noqa: SLF001
    written = [i for i, a in enumerate(schema) if a.alias_info is not None and a.alias_info.is_write]
    mine, wide = _copies(arguments), _copies(arguments, wide=True)
    found, right = _tensors(target(*mine)), _tensors(op.overload(case.overload).reference(*wide))
    bounds = list(op.allowed(case.overload, _copies(arguments, wide=True), right, [a.dtype for a in found]))
    for i in written:
        tolerance = op.tolerances[str(mine[i].dtype).partition(".")[2]]
        found.append(mine[i])
        right.append(wide[i])
        bounds.append(tolerance.absolute + tolerance.relative * wide[i].abs())
    shares = [
        (a.double() - b.double()).abs() / (bound.double() + math.ulp(0))
        for a, b, bound in zip(found, right, bounds, strict=True)
    ]
    return max(float(share.nan_to_num(nan=math.inf).max()) for share in shares if share.numel())


def _cases(op: Op, sizes: Sequence[int]) -> Iterator[Case]:
    """Of each overload the benchmark cases nearest to these sizes, in the 16-bit type that models use.

    One that moves twice as much or more has fewer rows here: its reference may take seconds on a CPU.
    """
    for overload in op.overloads:
        cases = [c for c in op.benchmarks if (c.overload, c.dtype) == (overload.name, "bfloat16")]
        found = {}
        for size in sizes if cases else ():
            case = min(cases, key=lambda c: abs(math.log(op.bytes(c) / size)))
            while op.bytes(case) >= 2 * size and case.shape[0] > 1:
                case = replace(case, shape=(case.shape[0] // 2, *case.shape[1:]))
            found[str(case)] = case
        yield from found.values()


def _operators(device: str, sizes: Sequence[int]) -> tuple[list[float], list[str]]:
    """A line for each case; how many times as fast as eager each was, and what was wrong."""
    import torch

    faster, wrong = [], []
    print(f"\n{'operator':44} {'error':>7} {'here':>10} {'torch':>10}")
    for op in (ops.record(name) for name in ops.names() if hasattr(torch.ops.kernelwright, name)):
        for case in _cases(op, sizes):
            generator = torch.Generator(device).manual_seed(secrets.randbits(32))
            arguments = op.make(case, device, generator)
            name = f"{op.qualified(op.overload(case.overload))} {'x'.join(map(str, case.shape))} {case.dtype}"
            try:
                error = _error(op, case, arguments)
            except errors.Unsupported as refused:
                print(f"{name:44} {refused}")
                continue
            target = getattr(getattr(calls, op.name), case.overload)
            eager = op.eager.get(case.overload)
            prepared = eager(*arguments) if eager else lambda: op.overload(case.overload).reference(*arguments)  # noqa: B023
            ours = _seconds(lambda: target(*arguments), device)  # noqa: B023 - called at once
            theirs = _seconds(prepared, device)
            faster.append(theirs / ours)
            times = f"{ours * 1e6:7.1f} µs {theirs * 1e6:7.1f} µs {theirs / ours:6.2f}x"
            print(f"{name:44} {error:6.0%} {times}{'' if error <= 1 else '  WRONG'}", flush=True)
            if not error <= 1:
                wrong.append(f"{name} is off by {error:.3g} times what rounding allows")
    print("error: the largest, of what rounding the result allows, against the definition in float64")
    return faster, wrong


def _block(norm: Any, gate: Callable[[Any, Any], Any], attend: Callable[[Any, Any, Any], Any], width: int) -> Any:
    """One block of a transformer: attention and a gated feed-forward part, each behind a norm."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = norm(width), norm(width)
            self.qkv, self.o = (nn.Linear(width, times * width, bias=False) for times in (3, 1))
            self.gate, self.up = (nn.Linear(width, 3 * width, bias=False) for _ in range(2))
            self.down = nn.Linear(3 * width, width, bias=False)

        def forward(self, x: Any) -> Any:
            heads = self.qkv(self.norm1(x)).unflatten(-1, (3, -1, 64)).transpose(1, 3)
            x = x + self.o(attend(*heads.unbind(2)).transpose(1, 2).flatten(2))
            y = self.norm2(x)
            return x + self.down(gate(self.gate(y), self.up(y)))

    return Block().to(torch.bfloat16)


def _blocks(device: str, width: int, tokens: int) -> tuple[float, str | None]:
    """The same weights in both blocks: outputs and gradients compared, one step of training timed."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention, silu

    import kernelwright

    there = ops.names()
    gate = kernelwright.swiglu if "swiglu" in there else lambda a, b: silu(a) * b
    attend = partial(kernelwright.attention, causal=True) if "attention" in there else None
    by_torch = partial(scaled_dot_product_attention, is_causal=True)
    theirs = _block(torch.nn.RMSNorm, lambda a, b: silu(a) * b, by_torch, width).to(device)
    ours = _block(kernelwright.nn.RMSNorm, gate, attend or by_torch, width).to(device)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(2, tokens, width, device=device, dtype=torch.bfloat16)

    def step(block: Any) -> Any:
        block.zero_grad()
        y = block(x)
        y.float().square().mean().backward()
        return y.detach()

    def difference(a: Any, b: Any) -> float:
        return float((a.double() - b.double()).norm() / b.double().norm())

    outputs = difference(step(ours), step(theirs))
    pairs = zip(ours.parameters(), theirs.parameters(), strict=True)
    gradients = max(difference(a.grad, b.grad) for a, b in pairs)
    mine, other = (_seconds(partial(step, block), device) for block in (ours, theirs))
    print(
        f"\na transformer block, 2x{tokens}x{width} bfloat16, forward and backward: {mine * 1e3:.2f} ms, "
        f"with torch's own modules {other * 1e3:.2f} ms\n"
        f"outputs differ by {outputs:.1e}, gradients by {gradients:.1e} (bfloat16 rounds to 4e-3)"
    )
    wrong = not max(outputs, gradients) <= BLOCK_ERROR
    return other / mine, f"the block differs from torch's by {max(outputs, gradients):.1e}" if wrong else None


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m kernelwright.demo", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one size an operator: below 20 seconds")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="default: a GPU if torch sees one")
    options = parser.parse_args(arguments)
    try:
        ops.register()
    except errors.TorchMissing as error:
        print(error)
        return 1
    import torch

    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    where = torch.cuda.get_device_name() if device == "cuda" else f"the CPU, {torch.get_num_threads()} threads"
    print(f"kernelwright {_files.version()}, torch {torch.__version__}, on {where}")
    faster, wrong = _operators(device, QUICK_BYTES[device] if options.quick else BYTES)
    block, differs = _blocks(device, 512 if device == "cpu" else 2048, 128 if device == "cpu" else 2048)
    wrong += [differs] if differs else []
    mean = math.exp(statistics.fmean(map(math.log, faster)))
    print(
        f"\n{len(faster)} calls: {mean:.1f} times as fast as torch eager on average (geometric mean), "
        f"{min(faster):.1f} to {max(faster):.1f}; the block {block:.2f} times"
    )
    for line in wrong:
        print(f"WRONG {line}")
    print("FAILED" if wrong else "SUCCESS")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
