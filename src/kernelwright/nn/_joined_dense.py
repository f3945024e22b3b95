# SPDX-License-Identifier: MIT
"""torch's linear layers that take the same input as one product, where their weights lie together in memory.

Nothing but the parameters holds that memory, so whether they still lie so is looked up in each call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


def _trains(*tensors: Tensor | None) -> bool:
    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)


def _follow(tensors: Sequence[Tensor]) -> bool:
    """Whether each begins where the one before it ends, in the same memory."""
    end, memory = tensors[0].data_ptr(), tensors[0].untyped_storage().data_ptr()
    for tensor in tensors:
        if tensor.data_ptr() != end or not tensor.is_contiguous() or tensor.untyped_storage().data_ptr() != memory:
            return False
        end += tensor.numel() * tensor.element_size()
    return True


def together(layers: Sequence[Any]) -> tuple[Tensor, Tensor | None] | None:
    """The weights of layers as one, and their biases."""
    weights, biases = [layer.weight for layer in layers], [layer.bias for layer in layers]
    if _trains(*weights, *biases) or not _follow(weights):
        return None
    first, bias = weights[0], None
    if biases[0] is not None:
        count = sum(part.numel() for part in biases)
        whole = _follow(biases)
        bias = biases[0].detach().as_strided((count,), (1,)) if whole else torch.cat([part.detach() for part in biases])
    rows, width = sum(weight.shape[0] for weight in weights), first.shape[1]
    return first.detach().as_strided((rows, width), (width, 1)), bias


def why_not(layers: Sequence[Any]) -> str | None:
    """Why the weights of these layers cannot be brought together."""
    weights = [layer.weight for layer in layers]
    if any(type(weight) is not torch.nn.Parameter or weight.is_meta or not weight.numel() for weight in weights):
        return "its weights are sharded over processes, of another class, or not there yet"
    alike = {(weight.dtype, weight.device, weight.shape[1]) for weight in weights}
    if len(alike) > 1 or len({layer.bias is None for layer in layers}) > 1:
        return "its layers differ in type, width, device or bias"
    return None


def join(layers: Sequence[Any]) -> None:
    """Puts the weights of layers into one piece of memory, as the parameters that they are."""
    put_together([layer.weight for layer in layers])
    if layers[0].bias is not None:
        put_together([layer.bias for layer in layers])


def put_together(parameters: Sequence[Tensor]) -> Tensor:
    """The values of parameters one behind the other, of which each is a view from now on."""
    both = torch.cat([parameter.data.reshape(-1) for parameter in parameters])
    for parameter, values in zip(parameters, both.split([p.numel() for p in parameters]), strict=True):
        parameter.data = values.view(parameter.shape)
    return both


def part(layers: Sequence[Any]) -> None:
    """Gives each its own memory again."""
    if len(layers) < 2:
        return
    for name in ("weight", "bias"):
        found = [getattr(layer, name, None) for layer in layers]
        tensors = [tensor for tensor in found if isinstance(tensor, torch.Tensor)]
        if len(tensors) == len(found) and len({tensor.untyped_storage().data_ptr() for tensor in tensors}) == 1:
            for tensor in tensors:
                tensor.data = tensor.data.clone()
