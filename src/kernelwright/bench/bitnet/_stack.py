# SPDX-License-Identifier: MIT
"""The stack that is timed: h + down(norm(relu(gate)^2 * up)) of norm(h), once for each layer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch

from kernelwright.nn.bit_linear import BitLinear
from kernelwright.nn.norm import RMSNorm
from kernelwright.ops.ternary.relu2_gated import relu2_gated

if TYPE_CHECKING:
    from collections.abc import Callable


class Block(torch.nn.Module):
    def __init__(self, hidden: int, intermediate: int, bits: int, **here: Any) -> None:
        super().__init__()
        self.ternary = bits == 2
        self.norms = torch.nn.ModuleList(RMSNorm(size, eps=1e-5, **here) for size in (hidden, intermediate))
        sizes = (hidden, intermediate), (hidden, intermediate), (intermediate, hidden)
        linear = BitLinear if self.ternary else torch.nn.Linear
        self.parts = torch.nn.ModuleList(linear(*size, bias=False, **here) for size in sizes)
        if self.ternary:
            for part in self.parts:
                part.pack_()

    def forward(self, h: Any) -> Any:
        x = self.norms[0](h)
        gate, up = self.parts[0](x), self.parts[1](x)
        gated = relu2_gated(gate, up) if self.ternary else torch.relu(gate).square() * up
        return h + self.parts[2](self.norms[1](gated))


def _graphed(stack: Any, x: Any) -> Callable[[], Any]:
    """One CUDA graph of the whole pass."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        stack(x)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        stack(x)
    return graph.replay


def seconds(bits: int, rows: int, hidden: int, intermediate: int, layers: int, device: str, repeats: int) -> float:
    """The median of a pass."""
    torch.manual_seed(0)
    here = {"device": device, "dtype": torch.bfloat16}
    stack = torch.nn.Sequential(*(Block(hidden, intermediate, bits, **here) for _ in range(layers)))
    x = torch.randn(rows, hidden, **here)
    with torch.inference_mode():
        stack(x)
        call = _graphed(stack, x) if device.startswith("cuda") else lambda: stack(x)
        times = []
        for _ in range(repeats):
            begin = time.perf_counter()
            call()
            if device.startswith("cuda"):
                torch.cuda.synchronize(device)
            times.append(time.perf_counter() - begin)
    return sorted(times)[len(times) // 2]
