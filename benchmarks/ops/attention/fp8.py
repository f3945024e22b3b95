# SPDX-License-Identifier: MIT
"""Times attention of 8-bit floats beside our own of 16 bits and FlashAttention-3's of 8, where its wheel is installed.

    python benchmarks/ops/attention/fp8.py [--only TEXT] [--rounds N] [--out DIR] [--commit TEXT]

CUDA graphs of calls over as many tensors as leave L2 behind, replayed in turns; medians, microseconds a call. Before a
case is timed, everybody is compared with ours of 16 bits, of what the numbers stand for. With --out the figures go to
DIR/attention_fp8-DEVICE.json.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import kernelwright
from benchmarks.harness import lines
from kernelwright.bench.harness.cuda import Gpu

if TYPE_CHECKING:
    from collections.abc import Callable

Given = tuple[Any, ...]
WHAT = "medians, microseconds a call, everybody in turns in one process, CUDA graphs; results in bfloat16"
WORST = 0.06  # of the norm: shares are rounded to three bits behind the leading one, and q of 16 bits is rounded too
PEER = "flash_attn_interface"  # as FlashAttention-3's wheel calls it


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

    @property
    def bytes(self) -> int:
        """Of the contestant that moves the fewest."""
        return self.batch * self.rows * self.d * (self.heads * 3 + self.kv_heads * 2)

    @property
    def flops(self) -> int:
        return 4 * self.batch * self.heads * self.rows**2 * self.d // (2 if self.causal else 1)

    def made(self) -> Given:
        """Codes in memory as [batch, rows, heads, d], which nobody has to copy, and factors [batch, kv_heads]."""
        codes, factors = [], []
        for heads in (self.heads, self.kv_heads, self.kv_heads):
            wide = torch.randn(self.batch, self.rows, heads, self.d, device="cuda") * 120.0
            codes.append(wide.clamp(-448, 448).to(torch.float8_e4m3fn))
            factors.append((torch.rand(self.batch, self.kv_heads, device="cuda") + 0.5) / 120.0)
        return *codes, *factors

    def contestants(self, given: Given) -> dict[str, Callable[[], Any]]:
        *codes, q_scale, k_scale, v_scale = given
        each = self.heads // self.kv_heads
        q, k, v = (t.transpose(1, 2) for t in codes)
        of_q = q_scale.repeat_interleave(each, 1)
        own = {"q_scale": of_q, "k_scale": k_scale, "v_scale": v_scale}
        wide = [
            (t.float() * factor[..., None, None]).bfloat16() for t, factor in ((q, of_q), (k, k_scale), (v, v_scale))
        ]
        calls: dict[str, Callable[[], Any]] = {
            "kernelwright": partial(kernelwright.attention_fp8, q, k, v, **own, causal=self.causal),
            "kernelwright bfloat16": partial(kernelwright.attention, *wide, causal=self.causal),
        }
        if importlib.util.find_spec(PEER) is not None:
            calls["flash-attn 3"] = partial(_peer, given, self.causal)
        return calls


CASES = (
    Case(4, 32, 32, 4096, 128, causal=True), Case(4, 32, 32, 4096, 128, causal=False),
    Case(4, 32, 32, 4096, 64, causal=True), Case(4, 32, 32, 4096, 64, causal=False),
    Case(1, 32, 8, 16384, 128, causal=True), Case(1, 32, 8, 16384, 128, causal=False),
    Case(16, 32, 32, 1024, 128, causal=True), Case(2, 16, 16, 8192, 128, causal=False),
)  # fmt: skip


def _peer(given: Given, causal: bool) -> Any:
    q, k, v, q_scale, k_scale, v_scale = given
    found = importlib.import_module(PEER).flash_attn_func(
        q, k, v, causal=causal, q_descale=q_scale, k_descale=k_scale, v_descale=v_scale
    )
    out: Any = found[0] if isinstance(found, tuple) else found
    return out.transpose(1, 2)


def check(case: Case, calls: dict[str, Callable[[], Any]]) -> None:
    right = calls["kernelwright bfloat16"]().float()
    for name, call in calls.items():
        off = float((call().float() - right).norm() / right.norm())
        if not off <= WORST:
            raise SystemExit(f"{case}: {name} is off by {off:.3g} of the norm, and {WORST} is allowed")


def main() -> None:
    asked, device = lines.options(__doc__), Gpu()
    found: dict[str, Any] = {}
    with torch.inference_mode():
        for case in CASES:
            if asked.only in str(case):
                found[str(case)] = us = lines.in_graphs(case, device, asked.rounds, check)
                told = "  ".join(
                    f"{who} {each:8.1f} µs {case.flops / each * 1e-6:5.0f} T/s" for who, each in us.items()
                )
                print(f"{case!s:36} {told}", flush=True)
                device.clean()
    if asked.out and found:
        about = {"what": WHAT, "command": "python benchmarks/ops/attention/fp8.py"}
        lines.write(asked, "attention_fp8", device, about, found)


if __name__ == "__main__":
    main()
