# SPDX-License-Identifier: MIT
"""torch's ColwiseParallel and RowwiseParallel for layers whose weight is quantized.

torch's styles make a DTensor of each parameter. A packed weight's part by columns is no part of the packed tensor, so
here each process keeps its part as a plain tensor and computes on plain tensors; DTensor moves inputs and results, and
their gradients, as in torch's styles. A bias is a DTensor as with torch's, and is added to the finished sum.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from kernelwright.distributed import _four_bit, _ternary
from kernelwright.distributed._placements import DTensor, Partial, Replicate, Shard, parallel
from kernelwright.errors import Unsupported
from kernelwright.nn.bit_linear import BitLinear
from kernelwright.nn.embedding_4bit import Embedding4bit
from kernelwright.nn.embedding_8bit import Embedding8bit
from kernelwright.nn.linear_4bit import Linear4bit
from kernelwright.nn.linear_8bit import Linear8bitLt

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed.device_mesh import DeviceMesh

    Layouts = tuple[Any, ...]

_OTHERS = (Linear8bitLt, Embedding4bit, Embedding8bit)


def _refuse_others(who: str, module: Any) -> None:
    if isinstance(module, _OTHERS):
        raise Unsupported(
            f"{who}: {type(module).__name__} cannot be sharded over processes; torch.nn.Linear, Linear4bit and "
            "a packed BitLinear can"
        )


def _from(source: int | None, mesh: DeviceMesh, tensor: Tensor) -> Tensor:
    """That of the process of this rank in the mesh; None: each takes its own."""
    if source is None or mesh.size() == 1:
        return tensor
    group = mesh.get_group()
    copy = tensor.contiguous().clone()
    dist.broadcast(copy, dist.get_global_rank(group, source), group=group)
    return copy


def _at(layouts: Layouts, dims: int) -> Layouts:
    """With dimensions counted from the front, as a DTensor's are."""
    return tuple(Shard(each.dim % dims) if isinstance(each, Shard) else each for each in layouts)


def _take(layouts: Layouts, desired: Any, gradient: Any, mesh: DeviceMesh, _: Any, inputs: tuple[Any, ...]) -> Any:
    """The input as this process computes on it, a plain tensor."""
    x, *rest = inputs
    if not isinstance(x, DTensor):
        if not (torch.is_grad_enabled() and x.requires_grad) and _at(layouts, x.ndim) == _at((desired,), x.ndim):
            return inputs  # it is what it must be, and no gradient asks what else there was
        x = DTensor.from_local(x, mesh, layouts, run_check=False)
    wanted = _at((desired,), x.ndim)
    if x.placements != wanted:
        x = x.redistribute(placements=wanted, async_op=True)
    return (x.to_local(grad_placements=_at((gradient,), x.ndim)), *rest)


def _give(made: Any, layouts: Layouts, local: bool, mesh: DeviceMesh, module: Any, _: Any, y: Tensor) -> Any:
    """The result as the style promises it."""
    if local and not y.requires_grad and not torch.compiler.is_dynamo_compiling():
        finished = _finished(made, _at(layouts, y.ndim), mesh, module, y)
        if finished is not None:
            return finished
    found = DTensor.from_local(y, mesh, _at((made,), y.ndim), run_check=False)
    wanted = _at(layouts, y.ndim)
    bias = module.bias if isinstance(module, Linear4bit) else None
    if bias is not None and not made.is_partial():
        found, bias = found + bias.to(found.dtype), None
    if found.placements != wanted:
        found = found.redistribute(placements=wanted, async_op=True)
    if bias is not None:
        found = found + bias.to(found.dtype)
    return found.to_local() if local else found


def _finished(made: Any, wanted: Layouts, mesh: DeviceMesh, module: Any, y: Tensor) -> Tensor | None:
    """Where no gradient is wanted and nothing is to be cut or put together: without DTensor, whose part in Python takes
    longer than the product of a few rows. None: it is not so plain."""
    bias = module.bias if isinstance(module, Linear4bit) else None
    if bias is not None and torch.is_grad_enabled() and bias.requires_grad:
        return None
    if made.is_partial() and wanted == (Replicate(),):
        dist.all_reduce(y, group=mesh.get_group())
    elif wanted != _at((made,), y.ndim):
        return None
    return y if bias is None else y + bias.to_local().to(y.dtype)


def _share_bias(module: Any, along: int, same: Any, mesh: DeviceMesh) -> None:
    """A DTensor as with torch's styles, which results get once they are summed up."""
    bias, where = same(module.bias.detach()), Replicate()
    if along == 0:
        bias, where = bias.chunk(mesh.size())[mesh.get_local_rank()].clone(), Shard(0)
    made = DTensor.from_local(bias, mesh, [where], run_check=False)
    module.bias = torch.nn.Parameter(made, requires_grad=module.bias.requires_grad)


def _share(who: str, module: Any, mesh: DeviceMesh, along: int, source: int | None) -> Any:
    """Leaves the layer its part; what a process computes of a result then, as a placement."""
    same, rank, world = partial(_from, source, mesh), mesh.get_local_rank(), mesh.size()
    if isinstance(module, BitLinear):
        _ternary.share(who, module, along, mesh.get_group(), same)
        return Shard(-1) if along == 0 else Replicate()
    _four_bit.share(who, module, along, rank, world, mesh.device_type, same)
    if module.bias is not None:
        _share_bias(module, along, same, mesh)
    module.adds_bias = False
    return Shard(-1) if along == 0 else Partial()


def _apply(style: Any, module: Any, mesh: DeviceMesh, along: int) -> Any:
    """`along` 0: each process has rows of the weight; 1: columns. None: the layer is torch's to shard."""
    who = type(style).__name__
    if not isinstance(module, (Linear4bit, BitLinear)):
        _refuse_others(who, module)
        return None
    with torch.no_grad():
        made = _share(who, module, mesh, along, getattr(style, "src_data_rank", 0))
    desired, gradient = (Replicate(), Partial()) if along == 0 else (Shard(-1), Shard(-1))
    module.register_forward_pre_hook(partial(_take, style.input_layouts, desired, gradient, mesh))
    module.register_forward_hook(partial(_give, made, style.output_layouts, style.use_local_output, mesh))
    return module


class ColwiseParallel(parallel.ColwiseParallel):
    """torch's style of this name. Of a quantized layer each process has an equal part of the weight's rows (outputs).

    Arguments are torch's: input_layouts, output_layouts, use_local_output. Of a 4-bit weight a part must be whole
    blocks.
    """

    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        return _apply(self, module, device_mesh, 0) or super()._apply(module, device_mesh)


class RowwiseParallel(parallel.RowwiseParallel):
    """torch's style of this name. Of a quantized layer each process has an equal part of the weight's columns (inputs).

    Arguments are torch's: input_layouts, output_layouts, use_local_output. Of a 4-bit weight a part of a row must be
    whole blocks; its scales are then in float32, double-quantized ones too. A ternary layer has no gradient then.
    """

    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        return _apply(self, module, device_mesh, 1) or super()._apply(module, device_mesh)
