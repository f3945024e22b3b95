# SPDX-License-Identifier: MIT
"""Times attention and its derivatives beside torch's own, FlashAttention-2 and cuDNN, on the installed wheel.

    python benchmarks/ops/attention/beside_torch.py [--only TEXT] [--rounds N] [--out DIR] [--commit TEXT]

Everybody goes through torch's autograd and takes turns in one process; figures are medians of all rounds. Before a case
is timed, ours is compared with float64 on one head of k. With --out the figures go to DIR/attention-DEVICE.json.
"""

from __future__ import annotations

import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import attention as backends
from torch.nn.functional import scaled_dot_product_attention as sdpa

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import kernelwright
from benchmarks.harness import lines
from kernelwright.bench.harness.cuda import Gpu

if TYPE_CHECKING:
    from collections.abc import Callable

Calls = dict[str, "Callable[[], Any]"]
WHAT = "medians, milliseconds a pass, everybody in turns in one process, through torch's autograd; bfloat16"
WORST = 0.02  # of the norm: both sides round probabilities to bfloat16


@dataclass(frozen=True)
class Case:
    batch: int
    heads: int
    kv_heads: int
    rows: int
    d: int
    causal: bool

    def __str__(self) -> str:
        how = "causal" if self.causal else "full"
        return f"b{self.batch} h{self.heads} kv{self.kv_heads} s{self.rows} d{self.d} {how}"

    def flops(self, *, backward: bool) -> float:
        pairs = self.batch * self.heads * self.rows**2 / (2 if self.causal else 1)
        return 4 * pairs * self.d * (2.5 if backward else 1)


CASES = (
    Case(4, 32, 32, 4096, 128, True), Case(4, 32, 32, 4096, 128, False), Case(4, 32, 32, 4096, 64, True),
    Case(4, 32, 32, 4096, 64, False), Case(1, 32, 8, 16384, 128, True), Case(16, 32, 32, 1024, 128, True),
    Case(2, 16, 16, 4096, 256, True),
)  # fmt: skip


def made(case: Case) -> list[Any]:
    shapes = ((case.heads, True), (case.kv_heads, True), (case.kv_heads, True), (case.heads, False))
    return [
        torch.randn(case.batch, heads, case.rows, case.d, device="cuda", dtype=torch.bfloat16).requires_grad_(wanted)
        for heads, wanted in shapes
    ]


def exact(case: Case, q: Any, k: Any, v: Any, dout: Any) -> tuple[Any, ...]:
    """In float64, of the first head of k and the heads of q that read it."""
    each = case.heads // case.kv_heads
    q, k, v, dout = (t[:1, :n].detach().double() for t, n in ((q, each), (k, 1), (v, 1), (dout, each)))
    q, k, v = (t.requires_grad_() for t in (q, k, v))
    outs = []
    for head in range(each):  # one at a time: the scores are in memory
        s = q[:, head : head + 1] @ k.transpose(-1, -2) * case.d**-0.5
        if case.causal:
            s = s.masked_fill(torch.ones_like(s, dtype=torch.bool).triu(1), -torch.inf)
        out = torch.softmax(s, -1) @ v
        out.backward(dout[:, head : head + 1])
        outs.append(out.detach())
    return torch.cat(outs, 1), q.grad, k.grad, v.grad


def check(case: Case, given: list[Any]) -> float:
    """The largest relative error by norm of out, dq, dk and dv."""
    q, k, v, dout = given
    out = kernelwright.attention(q, k, v, causal=case.causal)
    found = (out, *torch.autograd.grad(out, (q, k, v), dout))
    worst = 0.0
    for tensor, wide in zip(found, exact(case, *given), strict=True):
        mine = tensor.detach()[:1, : wide.shape[1]].double()
        worst = max(worst, float((mine - wide).norm() / wide.norm()))
    if not worst <= WORST:
        raise SystemExit(f"{case}: off by {worst:.3g} of the norm, and {WORST} is allowed")
    return worst


def contestants(case: Case, given: list[Any]) -> tuple[Calls, Calls]:
    """Forward calls and backward calls, by name."""
    q, k, v, dout = given
    forward: Calls = {"kernelwright": lambda: kernelwright.attention(q, k, v, causal=case.causal)}
    grouped = {"enable_gqa": True} if case.heads != case.kv_heads else {}
    of_torch = {"flash": backends.SDPBackend.FLASH_ATTENTION, "cudnn": backends.SDPBackend.CUDNN_ATTENTION}
    for name, backend in of_torch.items():

        def call(backend: Any = backend) -> Any:
            with backends.sdpa_kernel(backend):
                return sdpa(q, k, v, is_causal=case.causal, **grouped)

        forward[name] = call
    backward: Calls = {}
    for name, begin in forward.items():

        def derive(out: Any = begin()) -> Any:  # noqa: B008 - once, of this contestant
            return torch.autograd.grad(out, (q, k, v), dout, retain_graph=True)

        backward[name] = derive
    return forward, backward


def timed(calls: Calls, rounds: int) -> dict[str, float]:
    """Milliseconds, medians in turns."""
    took: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 2):
        for name, call in calls.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(4_000_000)  # noqa: SLF001 - so that the host is ahead when the call begins
            begin.record()
            call()
            end.record()
            end.synchronize()
            if turn >= 2:
                took[name].append(begin.elapsed_time(end))
    return {name: statistics.median(times) for name, times in took.items()}


def main() -> None:
    asked = lines.options(__doc__)
    found: dict[str, Any] = {}
    for case in CASES:
        if asked.only not in f"forward {case}" and asked.only not in f"backward {case}":
            continue
        given = made(case)
        worst = check(case, given)
        for name, calls in zip(("forward", "backward"), contestants(case, given), strict=True):
            if asked.only not in f"{name} {case}":
                continue
            ms = timed(calls, asked.rounds)
            rate = {who: case.flops(backward=name == "backward") / t / 1e9 for who, t in ms.items()}
            found[f"{name} {case}"] = {who: float(f"{t:.4g}") for who, t in ms.items()}
            told = "  ".join(f"{who} {t:7.3f} ms {rate[who]:4.0f}" for who, t in ms.items())
            print(f"{name:8} {case!s:34} {told}  error {worst:.1e}", flush=True)
    if asked.out and found:
        about = {"what": WHAT, "command": "python benchmarks/ops/attention/beside_torch.py"}
        lines.write(asked, "attention", Gpu(), about, found)


if __name__ == "__main__":
    main()
