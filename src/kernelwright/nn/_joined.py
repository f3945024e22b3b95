# SPDX-License-Identifier: MIT
"""Layers that take the same input as one product: their weights lie together in memory, under their names. Here 4-bit
ones; of ternary ones see _joined_ternary.py.

A weight of whole blocks has its codes and its scales in the order of its rows. So the codes of several layers, one
behind the other, are those of one larger weight, and each layer's parameter can be a view of its rows. Quantized scales
are told from each layer's own mean. The operators take a mean for each of several equal parts of a weight, and layers
are made of parts of as many rows as divide all of theirs. So no scale is another one than before, and no bit of memory
is taken; as float32 the scales would be the same too, and an eighth more of the weight's bytes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from kernelwright.nn import _frozen_linear, _joined_ternary
from kernelwright.nn._four_bit import as_bytes, in_float32
from kernelwright.nn._memory import Memory, first_reason, hooked, starts
from kernelwright.nn._memory import as_it_is as _as_it_is
from kernelwright.nn.bit_linear import BitLinear
from kernelwright.nn.linear_4bit import Linear4bit, LinearFP4, LinearNF4
from kernelwright.nn.params_4bit import Params4bit
from kernelwright.ops.four_bit import _shared as four_bit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

FOUR_BIT = (Linear4bit, LinearNF4, LinearFP4)
KINDS = (*FOUR_BIT, BitLinear)
_compiling = torch.compiler.is_dynamo_compiling
_VECTOR = 16  # bytes: where the kernels' loads begin


class Joined(Memory):
    """Of layers in 4 bits."""

    def __init__(self, layers: Sequence[Any], codes: Tensor, scales: tuple[Tensor, ...], bias: Tensor | None) -> None:
        state = layers[0].weight.quant_state
        sizes = [layer.out_features for layer in layers]
        shape = sum(sizes), layers[0].in_features
        super().__init__(sizes, (codes, scales, shape, state.blocksize, state.quant_type))
        self.starts = starts([layer.weight.nbytes for layer in layers])
        self.compute, self.bias = layers[0].compute_dtype, bias

    def holds(self, layer: Any, place: int) -> bool:
        """Whether a layer's weight and bias still lie there."""
        with _as_it_is():  # the weight's class has a way of its own through Python
            if layer.weight.data_ptr() != self.weight[0].data_ptr() + self.starts[place]:
                return False
        if self.bias is None:
            return True
        at: int = self.bias.data_ptr() + self.bias.element_size() * sum(self.sizes[:place])
        return bool(layer.bias.data_ptr() == at)

    def product(self, x: Tensor, norm: Any = None) -> Tensor | None:
        """What the layers give, side by side. None: a layer has something to say about x."""
        if x.dim() == 0 or x.shape[-1] != self.weight[2][1]:
            return None
        x = x if norm is None else norm(x)
        kind = x.dtype
        compute = self.compute or kind
        y = _frozen_linear.linear(x if kind is compute else x.to(compute), self.weight, self.bias)
        return y if kind is compute else y.to(kind)


def together(layers: Sequence[Any]) -> Any:
    """What the layers have together, if each still has it and nothing is in the way of one product."""
    joined: Any = getattr(layers[0], "joined", None)
    if joined is None or joined.weight is None:
        return None
    for place, layer in enumerate(layers):
        if type(layer) not in KINDS or layer.joined is not joined or hooked(layer):
            return None
        if layer.bias is not None and layer.bias.requires_grad and torch.is_grad_enabled():
            return None  # it learns
        if not _compiling() and not joined.holds(layer, place):  # somebody moved it by hand
            joined.drop()
            return None
    return joined


def product(layers: Sequence[Any], x: Any, norm: Any = None) -> Tensor | None:
    """What the layers give for x, or for norm(x), side by side, by one product. None: they are to be called one by
    one."""
    joined = together(layers)
    found: Tensor | None = None if joined is None else joined.product(x, norm)
    return found


# --- together, and apart again --------------------------------------------------------


def why_not(layers: Sequence[Any]) -> str | None:
    """Why the weights of these layers cannot lie together."""
    kinds = {type(layer) for layer in layers}
    if kinds == {BitLinear}:
        return _joined_ternary.why_not(layers)
    if not kinds <= {*FOUR_BIT}:
        return "its layers are not all plain 4-bit layers of kernelwright, or all its ternary ones"
    reasons: dict[str, Callable[[Any], Any]] = {
        "another library hooks into its layers": hooked,
        "its weights are sharded over processes, or of another class": _is_sharded,
        "its weights are not quantized yet": lambda layer: layer.weight.quant_state is None or layer.weight.is_meta,
        "a layer's weight does not end with a block": _ends_within_a_block,
        f"the scales are quantized too, and a layer's do not end with a block of {four_bit.SCALES_A_BLOCK}": (
            _ends_within_a_block_of_scales
        ),
        "it has a bias, which is of the input's type in each call": lambda layer: (
            layer.bias is not None and layer.compute_dtype is None
        ),
    }
    reason = first_reason(layers, reasons)
    if reason is not None:
        return reason
    if len({_settings(layer) for layer in layers}) > 1:
        return "its layers differ in type, block size, width, device or bias"
    return _why_no_parts(layers) if layers[0].weight.quant_state.nested else None


def _why_no_parts(layers: Sequence[Any]) -> str | None:
    """Why layers with quantized scales are no equal parts of one weight, each with a mean."""
    parts, most = sum(_parts(layers)), four_bit.MOST_PARTS
    if parts > most:
        return f"the scales are quantized too, and the layers' rows have {parts} equal parts, of which {most} may be"
    maps = [layer.weight.quant_state.state2.code for layer in layers]
    equal = all(torch.equal(maps[0], one) for one in maps)
    return None if equal else "the scales are quantized too, by other values in each layer"


def _parts(layers: Sequence[Any]) -> list[int]:
    """How many parts each layer is of those that have as many rows as divide all layers' rows."""
    rows = math.gcd(*[layer.out_features for layer in layers])
    return [layer.out_features // rows for layer in layers]


def _is_sharded(layer: Any) -> bool:
    return type(layer.weight) is not Params4bit or not layer.adds_bias


def _ends_within_a_block(layer: Any) -> bool:
    """Or not where a vector ends, so that what follows would not be aligned."""
    state, sizes = layer.weight.quant_state, (layer.weight.nbytes, in_float32(layer.weight.quant_state.absmax).nbytes)
    return bool(state.shape.numel() % state.blocksize or any(size % _VECTOR for size in sizes))


def _ends_within_a_block_of_scales(layer: Any) -> bool:
    """Or the blocks are of another size, which the operators do not know."""
    state = layer.weight.quant_state
    if not state.nested:
        return False
    return bool(state.state2.blocksize != four_bit.SCALES_A_BLOCK or state.absmax.numel() % four_bit.SCALES_A_BLOCK)


def _settings(layer: Any) -> tuple[Any, ...]:
    weight, state = layer.weight, layer.weight.quant_state
    settings = weight.dtype, weight.device, layer.in_features, layer.compute_dtype, layer.bias is None
    return (*settings, state.blocksize, state.quant_type, state.nested, weight.is_inference())


def join(layers: Sequence[Any]) -> str | None:
    """Brings the weights of layers together in memory, one set of layers at a time; else says why not."""
    reason = why_not(layers)
    with torch.no_grad(), _as_it_is():
        if reason is not None or together(layers):
            return reason
        ternary = type(layers[0]) is BitLinear
        joined = _joined_ternary.JoinedTernary(layers) if ternary else _joined_in_4_bits(layers)
    for layer in layers:
        layer.joined = joined
    return None


def _joined_in_4_bits(layers: Sequence[Any]) -> Joined:
    scales = _scales_together(layers)
    codes = _together([layer.weight for layer in layers])
    bias = layers[0].bias
    if bias is not None:
        for layer in layers:  # for good, as its first call would do
            layer.bias.data = layer.bias.data.to(layer.compute_dtype)
        bias = _together([layer.bias for layer in layers])
    return Joined(layers, as_bytes(codes).view(-1, 1), scales, bias)


def _scales_together(layers: Sequence[Any]) -> tuple[Tensor, ...]:
    """As the operators' overloads take them; each layer's state has its part of them from now on."""
    states = [layer.weight.quant_state for layer in layers]
    absmax = _one_behind_the_other(states)
    if not states[0].nested:
        return (absmax,)
    offset = torch.cat(
        [in_float32(state.offset).reshape(1).expand(count) for state, count in zip(states, _parts(layers), strict=True)]
    )
    seconds = [state.state2 for state in states]
    return absmax, _one_behind_the_other(seconds), in_float32(seconds[0].code), offset


def _one_behind_the_other(states: Sequence[Any]) -> Tensor:
    absmax = torch.cat([in_float32(state.absmax).reshape(-1) for state in states])
    for state, part in zip(states, absmax.split([state.absmax.numel() for state in states]), strict=True):
        state.absmax = part
    return absmax


def _together(parameters: Sequence[Tensor]) -> Tensor:
    """The values of parameters one behind the other, of which each is a view from now on."""
    both = torch.cat([parameter.data.reshape(-1) for parameter in parameters])
    for parameter, values in zip(parameters, both.split([p.numel() for p in parameters]), strict=True):
        parameter.data = values.view(parameter.shape)
    return both


def part(layers: Sequence[Any]) -> None:
    """Gives each its own memory again."""
    for layer in layers:
        joined = getattr(layer, "joined", None)
        if joined is None:
            continue
        if type(layer) is BitLinear:
            _joined_ternary.part(layer)
        else:
            _part_in_4_bits(layer)
        joined.drop()
        layer.joined = None


def _part_in_4_bits(layer: Any) -> None:
    with _as_it_is():
        layer.weight.data = layer.weight.data.clone()
        if layer.bias is not None:
            layer.bias.data = layer.bias.data.clone()
    state = layer.weight.quant_state
    for one in (state, getattr(state, "state2", None)):
        if one is not None:
            one.absmax = one.absmax.clone()
