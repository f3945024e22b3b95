# SPDX-License-Identifier: MIT
"""Times attention and its derivatives on the CPU beside torch's own, on the installed wheel.

    python benchmarks/ops/attention/on_cpu.py [--only TEXT] [--rounds N] [--out DIR] [--commit TEXT]

In turns in one process, with torch's number of threads; medians, milliseconds a call. Before a case is timed, both are
compared with float64. With --out the figures go to DIR/attention-DEVICE.json.
"""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import kernelwright
from benchmarks.harness import lines
from kernelwright.bench.harness.cpu import Cpu

if TYPE_CHECKING:
    from collections.abc import Callable

WHAT = "medians, milliseconds a call, in turns in one process"
WORST = 0.02  # of the norm: bfloat16 rounds


@dataclass(frozen=True)
class Case:
    dtype: str
    heads: int
    kv_heads: int
    queries: int
    keys: int
    d: int
    causal: bool = True
    backward: bool = False

    def __str__(self) -> str:
        name = f"{self.dtype} h{self.heads} kv{self.kv_heads} q{self.queries} s{self.keys} d{self.d}"
        return f"{'backward' if self.backward else 'forward'} {name} {'causal' if self.causal else 'full'}"

    def made(self) -> list[Any]:
        shapes = (self.heads, self.queries), (self.kv_heads, self.keys), (self.kv_heads, self.keys)
        type_ = getattr(torch, self.dtype)
        return [torch.randn(1, *shape, self.d).to(type_).requires_grad_(self.backward) for shape in shapes]

    def ours(self, q: Any, k: Any, v: Any) -> Any:
        return kernelwright.attention(q, k, v, causal=self.causal)

    def torchs(self, q: Any, k: Any, v: Any) -> Any:
        return sdpa(q, k, v, is_causal=self.causal, enable_gqa=self.heads != self.kv_heads)


CASES = tuple(
    Case(dtype, *sizes, backward=backward)  # type: ignore[arg-type,misc]
    for dtype in ("float32", "bfloat16", "float16")
    for backward in (False, True)
    for sizes in (
        (8, 8, 1024, 1024, 64),
        (8, 8, 1024, 1024, 128),
        (8, 8, 1024, 1024, 128, False),
        (32, 8, 512, 512, 128),
    )
) + tuple(Case(dtype, 32, 8, 1, 4096, 128, causal=False) for dtype in ("float32", "bfloat16"))


def check(case: Case, given: list[Any]) -> None:
    wide = case.torchs(*(x.detach().double() for x in given))
    for name, found in (("ours", case.ours(*given)), ("torch", case.torchs(*given))):
        off = float((found.detach().double() - wide).norm() / wide.norm())
        if not off <= WORST:
            raise SystemExit(f"{case}: {name} is off by {off:.3g} of the norm, and {WORST} is allowed")


def contestants(case: Case, given: list[Any]) -> dict[str, Callable[[], Any]]:
    calls: dict[str, Callable[[], Any]] = {}
    for name, of in (("kernelwright", case.ours), ("torch", case.torchs)):
        if not case.backward:
            calls[name] = lambda of=of: of(*given)
            continue
        out = of(*given)
        calls[name] = lambda out=out: torch.autograd.grad(out, given, torch.ones_like(out), retain_graph=True)
    return calls


def timed(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    took: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 1):
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            if turn:
                took[name].append((time.perf_counter() - begin) * 1e3)
    return {name: float(f"{statistics.median(times):.4g}") for name, times in took.items()}


def main() -> None:
    asked, device = lines.options(__doc__), Cpu(torch.get_num_threads())
    found: dict[str, Any] = {}
    for case in CASES:
        if asked.only not in str(case):
            continue
        given = case.made()
        check(case, given)
        with torch.set_grad_enabled(case.backward):
            found[str(case)] = ms = timed(contestants(case, given), asked.rounds)
        told = "  ".join(f"{who} {each:8.2f} ms" for who, each in ms.items())
        print(f"{case!s:50} {told}  {ms['torch'] / ms['kernelwright']:5.2f}x", flush=True)
    if asked.out and found:
        about = {"what": WHAT, "command": "python benchmarks/ops/attention/on_cpu.py"}
        lines.write(asked, "attention", device, about, found)


if __name__ == "__main__":
    main()
