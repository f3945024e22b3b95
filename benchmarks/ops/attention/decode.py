# SPDX-License-Identifier: MIT
"""Times decoding beside torch's kernels, and pages and packed sequences beside our own without them.

    python benchmarks/ops/attention/decode.py [--only TEXT] [--rounds N] [--out DIR] [--commit TEXT]

CUDA graphs of calls over as many caches as leave L2 behind, replayed in turns; medians, microseconds a call. Before a
case is timed, every contestant is compared with ours without pages. With --out the figures go to
DIR/attention_decode-DEVICE.json.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
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

Given = tuple[Any, ...]
WHAT = "medians, microseconds a call, everybody in turns in one process, CUDA graphs; bfloat16"
WORST = 0.02  # of the norm: everybody rounds probabilities to bfloat16
BACKENDS = {"flash": backends.SDPBackend.FLASH_ATTENTION, "cudnn": backends.SDPBackend.CUDNN_ATTENTION}


@dataclass(frozen=True)
class Decode:
    """One query a sequence, with caches that are full."""

    batch: int
    heads: int
    kv_heads: int
    rows: int
    page: int = 0  # rows of a page, in pages of any order; 0: caches in one piece

    d = 128

    def __str__(self) -> str:
        pages = f" pages of {self.page}" if self.page else ""
        return f"decode b{self.batch} h{self.heads} kv{self.kv_heads} s{self.rows}{pages}"

    @property
    def bytes(self) -> int:
        return 2 * 2 * self.batch * self.kv_heads * self.rows * self.d

    @property
    def flops(self) -> int:
        return 4 * self.batch * self.heads * self.rows * self.d

    def made(self) -> Given:
        q = _normal(self.batch, self.heads, 1, self.d)
        k, v = (_normal(self.batch, self.kv_heads, self.rows, self.d) for _ in range(2))
        return q, k, v, torch.full((self.batch,), self.rows, dtype=torch.int32, device="cuda")

    def paged(self, given: Given) -> Callable[[], Any]:
        q, k, v, lengths = given
        count = self.rows // self.page
        order = torch.randperm(self.batch * count, device="cuda")
        pages = [torch.empty_like(x).view(-1, self.kv_heads, self.page, self.d) for x in (k, v)]
        for page, whole in zip(pages, (k, v), strict=True):
            page[order] = whole.unflatten(2, (count, self.page)).transpose(1, 2).flatten(0, 1)
        table = order.view(self.batch, count).int()
        return partial(kernelwright.attention_decode, q, *pages, lengths, block_table=table, causal=True)

    def contestants(self, given: Given) -> dict[str, Callable[[], Any]]:
        q, k, v, lengths = given
        calls = {"kernelwright": partial(kernelwright.attention_decode, q, k, v, lengths, causal=True)}
        if self.page:
            return {"whole": calls["kernelwright"], "kernelwright": self.paged(given)}
        for name, backend in BACKENDS.items():
            calls[name] = partial(_by_torch, backend, q, k, v)
        return calls


@dataclass(frozen=True)
class Sequences:
    """Forward passes of packed sequences, beside a batch of the same lengths."""

    batch: int
    heads: int
    rows: int
    causal: bool

    d = 128

    def __str__(self) -> str:
        return f"varlen b{self.batch} h{self.heads} s{self.rows} {'causal' if self.causal else 'full'}"

    @property
    def bytes(self) -> int:
        return 4 * 2 * self.batch * self.heads * self.rows * self.d

    @property
    def flops(self) -> int:
        return 4 * self.batch * self.heads * self.rows**2 * self.d // (2 if self.causal else 1)

    def made(self) -> Given:
        q, k, v = (_normal(self.batch, self.rows, self.heads, self.d) for _ in range(3))
        starts = torch.arange(self.batch + 1, device="cuda", dtype=torch.int32) * self.rows
        return q, k, v, starts

    def contestants(self, given: Given) -> dict[str, Callable[[], Any]]:
        *tensors, starts = given
        packed = [x.flatten(0, 1) for x in tensors]
        whole = [x.transpose(1, 2) for x in tensors]

        def of_sequences() -> Any:
            out: Any = kernelwright.attention_varlen(*packed, starts, starts, self.rows, self.rows, causal=self.causal)
            return out.view(self.batch, self.rows, self.heads, self.d).transpose(1, 2)

        return {"whole": partial(kernelwright.attention, *whole, causal=self.causal), "kernelwright": of_sequences}


CASES: tuple[Decode | Sequences, ...] = (
    Decode(1, 32, 8, 8192), Decode(1, 64, 8, 4096), Decode(1, 32, 8, 131072), Decode(16, 32, 8, 8192),
    Decode(64, 32, 8, 2048), Decode(16, 32, 8, 8192, 16), Decode(16, 32, 8, 8192, 1), Decode(1, 32, 8, 8192, 16),
    Sequences(4, 32, 4096, causal=True), Sequences(4, 32, 4096, causal=False), Sequences(16, 32, 1024, causal=True),
)  # fmt: skip


def _normal(*shape: int) -> Any:
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def _by_torch(backend: Any, q: Any, k: Any, v: Any) -> Any:
    with backends.sdpa_kernel(backend):
        return sdpa(q, k, v, enable_gqa=True)


def check(case: Decode | Sequences, calls: dict[str, Callable[[], Any]]) -> None:
    outs = {name: call().double() for name, call in calls.items()}
    right = outs.get("whole", outs["kernelwright"])
    for name, out in outs.items():
        off = float((out - right).norm() / right.norm())
        if not off <= WORST:
            raise SystemExit(f"{case}: {name} is off by {off:.3g} of the norm, and {WORST} is allowed")


def main() -> None:
    asked, device = lines.options(__doc__), Gpu()
    found: dict[str, Any] = {}
    with torch.inference_mode():
        for case in CASES:
            if asked.only in str(case):
                found[str(case)] = us = lines.in_graphs(case, device, asked.rounds, check)
                print(f"{case!s:36} " + "  ".join(f"{who} {each:8.2f} µs" for who, each in us.items()), flush=True)
                device.clean()
    if asked.out and found:
        about = {"what": WHAT, "command": "python benchmarks/ops/attention/decode.py"}
        lines.write(asked, "attention_decode", device, about, found)


if __name__ == "__main__":
    main()
