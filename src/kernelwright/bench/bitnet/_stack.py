# SPDX-License-Identifier: MIT
"""The stack that is timed: h + down(norm(relu(gate)^2 * up)) of norm(h), once for each layer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch

from kernelwright.nn.bit_linear import BitLinear
from kernelwright.nn.norm import RMSNorm
from kernelwright.ops.ternary.linear_ternary import linear_ternary
from kernelwright.ops.ternary.relu2_gated import relu2_gated

if TYPE_CHECKING:
    from collections.abc import Callable

_FEW = 16  # rows of a launch of linear_ternary


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
        if self.ternary and len(h) <= _FEW:
            return self._few(h)
        x = self.norms[0](h)
        gate, up = self.parts[0](x), self.parts[1](x)
        gated = relu2_gated(gate, up) if self.ternary else torch.relu(gate).square() * up
        return h + self.parts[2](self.norms[1](gated))

    def _few(self, h: Any) -> Any:
        """Of few rows the norms and the residual are in the products' launches."""
        gate, up = (self._linear(place, h, self.norms[0]) for place in (0, 1))
        return self._linear(2, relu2_gated(gate, up), self.norms[1], h)

    def _linear(self, place: int, x: Any, norm: Any, residual: Any = None) -> Any:
        part: Any = self.parts[place]
        given = {"n": part.out_features, "weight": norm.weight, "eps": norm.eps, "residual": residual}
        return linear_ternary(x, part.packed, part.scale, **given)


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
