# SPDX-License-Identifier: MIT
"""Tensor parallelism by parallelize_module on several GPUs beside one: norms, SwiGLU, 4-bit and ternary layers.

    python -m tests.gpu.pair.tensor_parallel FILE [--device cpu --quick] [--processes N]

Sums over processes round where one process rounds once, so that floats are compared as lengths; what is ternary is
compared bit by bit, its sums in int32 too.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import SequenceParallel, parallelize_module

import kernelwright
from kernelwright import nn
from kernelwright.distributed import ColwiseParallel, RowwiseParallel
from tests.gpu.pair import ranks

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor
    from torch.distributed.device_mesh import DeviceMesh

SIZES = {False: (2048, 5632, 64), True: (512, 1024, 16)}  # hidden, inner, rows
BOUND = {torch.float32: 1e-5, torch.bfloat16: 2e-2}


class Layer(torch.nn.Module):
    """A norm, and a feed-forward part whose layers `make` makes."""

    def __init__(self, hidden: int, inner: int, norm: str, make: Callable[[int, int], Any]) -> None:
        super().__init__()
        self.norm = getattr(nn, norm)(hidden)
        torch.nn.init.normal_(self.norm.weight)
        self.gate, self.up, self.down = make(hidden, inner), make(hidden, inner), make(inner, hidden)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        found: Tensor = self.down(kernelwright.swiglu(self.gate(y), self.up(y)))
        return found


LAYERS: dict[str, Callable[[int, int], Any]] = {
    "torch.nn.Linear": torch.nn.Linear,
    "LinearNF4": nn.LinearNF4,
    "LinearNF4, bfloat16 storage": lambda k, n: nn.LinearNF4(k, n, quant_storage=torch.bfloat16),
    "LinearFP4, scales in float32": lambda k, n: nn.LinearFP4(k, n, bias=False, compress_statistics=False),
}
PLANS: dict[str, dict[str, Any]] = {
    "rows whole": {"gate": ColwiseParallel(), "up": ColwiseParallel(), "down": RowwiseParallel()},
    "sequence parallel": {
        "norm": SequenceParallel(sequence_dim=1),
        "gate": ColwiseParallel(input_layouts=Shard(1), use_local_output=False),
        "up": ColwiseParallel(input_layouts=Shard(1), use_local_output=False),
        "down": RowwiseParallel(),
    },
}


def layers(rank: int, mesh: DeviceMesh, sizes: tuple[int, ...], dtype: Any) -> dict[str, float]:
    """Results and gradients of each kind of layer under each plan, as shares of the whole one's."""
    found, device, (hidden, inner, rows) = {}, mesh.device_type, sizes
    for kind, make in LAYERS.items():
        for norm, (how, plan) in zip(("RMSNorm", "LayerNorm"), PLANS.items(), strict=True):
            torch.manual_seed(5)
            whole = Layer(hidden, inner, norm, make).to(dtype).to(device)
            sharded = parallelize_module(copy.deepcopy(whole), mesh, copy.deepcopy(plan))
            x = torch.randn(2, rows, hidden, generator=torch.Generator().manual_seed(6)).to(device, dtype)
            part = slice(None) if how == "rows whole" else _own(rank, mesh.size(), rows)
            inputs = [x.clone().requires_grad_(), x[:, part].clone().requires_grad_()]
            results = [whole(inputs[0]), sharded(inputs[1])]
            for result in results:
                result.float().square().mean().backward()
            name = f"{kind}, {norm}, {how}"
            found[f"{name}: result"] = ranks.apart(results[1], results[0])
            found[f"{name}: x.grad"] = ranks.apart(inputs[1].grad, inputs[0].grad[:, part])
            for (key, mine), theirs in zip(sharded.named_parameters(), whole.parameters(), strict=True):
                if theirs.requires_grad:
                    grad: Any = mine.grad
                    grad = grad.full_tensor() if hasattr(grad, "full_tensor") else grad
                    found[f"{name}: {key}.grad"] = ranks.apart(grad, theirs.grad)
    return found


def ternary(rank: int, mesh: DeviceMesh, sizes: tuple[int, ...]) -> dict[str, bool]:
    """Packed layers under the styles, their own parallel classes, and the sums themselves: the same bits as of one."""
    device, (hidden, inner, rows), world = mesh.device_type, sizes, mesh.size()
    torch.manual_seed(7)
    up, down = (nn.BitLinear(k, n, bias=True).to(device) for k, n in ((hidden, inner), (inner, hidden)))
    for layer in (up, down):
        torch.nn.init.normal_(layer.bias)
        layer.pack_()
    x = torch.randn(rows, hidden, generator=torch.Generator().manual_seed(8)).to(device)
    found = {}
    with torch.no_grad():
        for dtype in (torch.float32, torch.bfloat16):
            between = torch.relu(up(x.to(dtype)))
            expected = down(between)
            parts = [copy.deepcopy(up), copy.deepcopy(down)]
            first = parallelize_module(parts[0], mesh, ColwiseParallel())
            second = parallelize_module(parts[1], mesh, RowwiseParallel())
            found[f"styles, {dtype}"] = ranks.same_bits(second(torch.relu(first(x.to(dtype)))), expected)
            columns, columns_of = nn.ColumnParallelBitLinear(up), nn.RowParallelBitLinear(down)
            found[f"classes, {dtype}"] = ranks.same_bits(columns_of(torch.relu(columns(x.to(dtype)))), expected)
    return found | sums(device, sizes, _own(rank, world, inner))


def sums(device: str, sizes: tuple[int, ...], part: slice) -> dict[str, bool]:
    """Those in int32 alone: of a part of the columns and added up, of all, and in float64."""
    hidden, inner, rows = sizes
    generator = torch.Generator().manual_seed(9)
    codes = torch.randint(-127, 128, (rows, inner), generator=generator).to(device, torch.int8)
    values = torch.randint(-1, 2, (hidden, inner), generator=generator).to(device, torch.int8)

    def product(at: slice) -> Tensor:
        packed = nn.pack_ternary(values[:, at].contiguous())
        call = torch.ops.kernelwright.matmul_ternary
        found: Tensor = call(codes[:, at].contiguous(), packed, None, None, None, hidden, torch.int32)
        return found

    whole, added = product(slice(None)), product(part)
    dist.all_reduce(added)
    exact = codes.double().cpu() @ values.double().cpu().t()
    return {
        "sums in int32": ranks.same_bits(added, whole),
        "sums as of float64": torch.equal(whole.double().cpu(), exact),
    }


def _own(rank: int, world: int, count: int) -> slice:
    return slice(count // world * rank, count // world * (rank + 1))


def shown(rank: int, world: int, device: str, sizes: tuple[int, ...], dtype: Any) -> dict[str, Any]:
    mesh = init_device_mesh(device, (world,))
    apart, bits = layers(rank, mesh, sizes, dtype), ternary(rank, mesh, sizes)
    bound = BOUND[dtype]
    return {
        "compared": len(apart),
        "bound": bound,
        "worst apart": max(apart.values()),
        "at": max(apart, key=apart.__getitem__),
        "beyond": {name: value for name, value in apart.items() if not value <= bound},
        "ternary, same bits": bits,
        "ok": all(value <= bound for value in apart.values()) and all(bits.values()),
    }


def main() -> None:
    asked = ranks.options(__doc__)
    found: dict[str, Any] = {}
    for dtype in (torch.float32, torch.bfloat16):
        found[str(dtype)] = ranks.together(shown, asked.processes, asked.device, SIZES[asked.quick], dtype)
        ranks.write(asked.out, found)
    ranks.write(asked.out, found | {"ok": all(each["ok"] for parts in found.values() for each in parts)})


if __name__ == "__main__":
    main()
