# SPDX-License-Identifier: MIT
"""peft's LoRA layers as one autograd function. Importing this file imports torch, and not peft.

peft computes the adapter in the type of its weights, float32 as a rule: it converts the input, multiplies twice in
float32, scales, converts and adds, each a pass over as many elements as the layer has. Here all is computed in the type
that the layer computes in, and the adapter's products are added within the products themselves. Sums are float32 either
way.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.function import once_differentiable

from kernelwright.nn import _frozen_linear
from kernelwright.nn._four_bit import in_float32
from kernelwright.ops._tensors import without_autocast

if TYPE_CHECKING:
    from peft.tuners.lora.layer import LoraLayer
    from torch import Tensor

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_LAYERS = ("Linear4bit", "LinearNF4", "LinearFP4")  # ours and bitsandbytes'
_NOTHING = contextlib.nullcontext()
_compiling = torch.compiler.is_dynamo_compiling
_as_it_is = torch._C.DisableTorchFunctionSubclass  # noqa: SLF001 - it has no public name


class _Adapted(torch.autograd.Function):
    """y = x W' + bias + scale (x a') b' of a frozen W: a dense matrix or a 4-bit weight.

    The adapter's weights are converted in each call: they are small, and not every optimizer tells torch of its steps.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, a: Tensor, b: Tensor, weight: Any, bias: Any, scale: float) -> Tensor:
        down, up = a.to(x.dtype), b.to(x.dtype)
        with _plainly(x):
            y = _product(x, weight, bias)
            inner = x.reshape(-1, x.shape[-1]) @ down.t()
            y.view(-1, y.shape[-1]).addmm_(inner, up.t(), alpha=scale)
        ctx.save_for_backward(x, inner, a, b)  # the last two so that torch notices a step before the backward pass
        ctx.halves, ctx.weight, ctx.scale = (down, up), weight, scale
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        (x, inner, a, b), (down, up) = ctx.saved_tensors, ctx.halves
        by_x, by_a, by_b = None, None, None
        grads = grad.reshape(-1, grad.shape[-1])
        with _plainly(x):
            through = (grads @ up).mul_(ctx.scale)
            if ctx.needs_input_grad[2]:
                by_b = (grads.t() @ inner).to(b.dtype).mul_(ctx.scale)
            if ctx.needs_input_grad[1]:
                by_a = (through.t() @ x.reshape(-1, x.shape[-1])).to(a.dtype)
            if ctx.needs_input_grad[0]:
                by_x = _gradient(grad, ctx.weight)
                by_x.view(-1, by_x.shape[-1]).addmm_(through, down)
        return by_x, by_a, by_b, None, None, None


def _plainly(x: Tensor) -> contextlib.AbstractContextManager[Any]:
    """Without autocast; to leave it takes longer than to see that it is not there."""
    return without_autocast(x.device) if torch.is_autocast_enabled(x.device.type) else _NOTHING


def _product(x: Tensor, weight: Any, bias: Any) -> Tensor:
    if isinstance(weight, torch.Tensor):
        return torch.nn.functional.linear(x, weight, bias)
    return _frozen_linear.product(x, weight, bias)


def _gradient(grad: Tensor, weight: Any) -> Tensor:
    return (
        torch.matmul(grad, weight) if isinstance(weight, torch.Tensor) else _frozen_linear.gradient_of_x(grad, weight)
    )


# --- peft's layers -------------------------------------------------------------------


def is_lora(module: Any) -> bool:
    """One of peft's LoRA layers around a linear layer."""
    where = type(module).__module__
    return (
        where in ("peft.tuners.lora.layer", "peft.tuners.lora.bnb")
        and type(module).__name__ in ("Linear", "Linear4bit")
        and base_of(module.get_base_layer()) is not None
    )


def base_of(layer: Any) -> tuple[Any, torch.dtype | None] | None:
    """The frozen weight of a linear layer, and the type it computes in (None: the input's). None: it is another layer,
    somebody hooks into it, or its weight learns, is reordered, or not there yet."""
    weight = vars(layer)["_parameters"].get("weight")
    if weight is None or weight.requires_grad or weight.is_meta or _hooked(layer):
        return None
    if type(layer) is torch.nn.Linear:
        return (weight, weight.dtype) if type(weight) is torch.nn.Parameter else None
    state = getattr(weight, "quant_state", None)
    if type(layer).__name__ not in _LAYERS or state is None or getattr(state, "packing_format_for_cpu", False):
        return None
    scales: tuple[Tensor, ...] = (in_float32(state.absmax),)
    second = state.state2
    if len(state.shape) != 2 or (second is not None and second.blocksize != 256):
        return None
    with _as_it_is():  # bitsandbytes' class has a way of its own through Python
        codes = weight.view(-1, 1)
        codes = codes if codes.dtype is torch.uint8 else codes.view(torch.uint8)
    if second is not None:
        scales = state.absmax, *(in_float32(part) for part in (second.absmax, second.code, state.offset))
    return (codes, scales, tuple(state.shape), state.blocksize, state.quant_type), layer.compute_dtype


def _hooked(module: Any) -> bool:
    """Whether calling it does more than its class says."""
    own = vars(module)
    return bool(own["_forward_hooks"] or own["_forward_pre_hooks"] or own["_backward_hooks"] or "forward" in own)


def forward(self: LoraLayer, x: Tensor, *args: Any, **kwargs: Any) -> Any:
    """In place of a LoRA layer's own: the same, with one plain adapter and no dropout; else its own."""
    known = None if args or kwargs or _compiling() or not isinstance(x, torch.Tensor) else _plain(self, x)
    if known is None:
        return type(self).forward(self, x, *args, **kwargs)
    a, b, weight, bias, scale, compute = known
    y: Tensor = _Adapted.apply(x.to(compute), a, b, weight, None if bias is None else bias.to(compute), scale)
    return y.to(x.dtype)


def _plain(self: LoraLayer, x: Tensor) -> tuple[Any, ...] | None:
    """What to compute with; None where peft computes something else."""
    names = [name for name in self.active_adapters if name in self.lora_A]
    if len(names) != 1 or self.disable_adapters or self.merged or names[0] in self.lora_variant:
        return None
    name = names[0]
    down, up, dropout = self.lora_A[name], self.lora_B[name], self.lora_dropout[name]
    if type(down) is not torch.nn.Linear or type(up) is not torch.nn.Linear or up.bias is not None:
        return None
    if (self.training and getattr(dropout, "p", 0) > 0) or _hooked(down) or _hooked(up):
        return None
    layer = self.get_base_layer()
    base, bias = base_of(layer), vars(layer)["_parameters"].get("bias")
    if base is None or self.base_layer is not layer or (bias is not None and bias.requires_grad):
        return None
    weight, compute = base[0], base[1] or x.dtype
    right = compute in _FLOATS and x.numel() > 0 and x.device == down.weight.device
    if not right or (isinstance(weight, torch.Tensor) and x.dtype is not compute):
        return None
    return down.weight, up.weight, weight, bias, self.scaling[name], compute


forward.__name__ = "forward"
