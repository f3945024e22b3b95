# SPDX-License-Identifier: MIT
"""A linear layer whose weight is 8-bit floats (e4m3) with a scale a row, and whose input is quantized alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kernelwright.errors import InvalidArgument, InvalidDtype
from kernelwright.nn._progress import progress
from kernelwright.nn.quantize import _as_before, _found
from kernelwright.ops._calls import calls
from kernelwright.ops._tensors import without_autocast
from kernelwright.ops.fp8._matmul import dequantized
from kernelwright.ops.linear._reference import ACTIVATIONS, slope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torch import Tensor

__all__ = ["LinearFP8", "quantize_fp8_"]

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


class LinearFP8(torch.nn.Module):
    """A linear layer with its activation: weight in torch.float8_e4m3fn, one float32 scale a row of it, and rows of the
    input quantized as they come.

    The state dict has `weight`, float8_e4m3fn [out_features, in_features], and `weight_scale`, float32 [out_features],
    which a weight is multiplied by; [out_features, 1] is loaded too. Both are buffers: the weight is not trained, and
    `.to(dtype)` or `.half()` leave them as they are. Gradients reach the input and the bias: those of the layer at the
    dequantized weight, with the input's rounding passed straight through.

    activation  "relu", "squared_relu", "silu", "gelu", "gelu_tanh", or None
    dtype       of the bias

    >>> layer = kernelwright.nn.LinearFP8.from_linear(torch.nn.Linear(4096, 4096), activation="silu")
    """

    weight: Tensor
    weight_scale: Tensor

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        activation: str | None = None,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if activation not in (None, *ACTIVATIONS[1:]):
            raise InvalidArgument(
                f"LinearFP8: activation is {activation!r}, but must be None or one of {', '.join(ACTIVATIONS[1:])}"
            )
        self.in_features, self.out_features, self.activation = in_features, out_features, activation
        codes = torch.zeros((out_features, in_features), dtype=torch.uint8, device=device)
        self.register_buffer("weight", codes.view(torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(out_features, dtype=torch.float32, device=device))
        self.bias = torch.nn.Parameter(torch.zeros(out_features, device=device, dtype=dtype)) if bias else None

    @classmethod
    def from_linear(cls, linear: torch.nn.Linear, activation: str | None = None) -> LinearFP8:
        """Quantizes the weight of a layer, where it is; the bias is the layer's own."""
        made = cls(linear.in_features, linear.out_features, False, activation, device="meta")
        made.weight, made.weight_scale = calls.quantize_rows_fp8.default(linear.weight.detach())
        made.bias = linear.bias
        return made.train(linear.training)

    def extra_repr(self) -> str:
        of = f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        return of if self.activation is None else f"{of}, activation={self.activation}"

    def dequantize(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """What the weight's codes stand for."""
        return dequantized(self.weight, self.weight_scale, dtype)

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_autocast_enabled(x.device.type):
            x = x.to(torch.get_autocast_dtype(x.device.type))
        bias = self.bias
        if bias is not None and bias.dtype not in _FLOATS:
            bias = bias.float()
        name = "none" if self.activation is None else self.activation
        if torch.is_grad_enabled() and (x.requires_grad or (bias is not None and bias.requires_grad)):
            found: Tensor = _Straight.apply(x, self.weight, self.weight_scale, bias, name)
            return found
        codes, scale = calls.quantize_rows_fp8.default(x)
        return _product(codes, scale, self.weight, self.weight_scale, bias, name, x.dtype)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        """Codes and scales go where the layer goes, and are no numbers to be rounded to another type on the way."""
        self.weight, self.weight_scale = self.weight.view(torch.uint8), self.weight_scale.view(torch.int32)
        try:
            return super()._apply(fn, recurse)
        finally:
            self.weight = self.weight.view(torch.float8_e4m3fn)
            self.weight_scale = self.weight_scale.view(torch.float32)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing: Any,
        unexpected: Any,
        errors: list[str],
    ) -> None:
        weight, scale = (state_dict.get(f"{prefix}{name}") for name in ("weight", "weight_scale"))
        if weight is not None and weight.dtype is not torch.float8_e4m3fn:
            errors.append(
                f"{prefix}weight: is {weight.dtype} in the checkpoint, but must be torch.float8_e4m3fn; of a weight in "
                "floats LinearFP8.from_linear() or quantize_fp8_() makes one"
            )
            return
        if scale is not None and scale.shape == (self.out_features, 1):
            state_dict = {**state_dict, f"{prefix}weight_scale": scale.view(-1)}
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing, unexpected, errors)


def _product(
    codes: Tensor,
    scale: Tensor,
    weight: Tensor,
    weight_scale: Tensor,
    bias: Tensor | None,
    activation: str,
    dtype: torch.dtype,
) -> Tensor:
    found: Tensor = calls.matmul_fp8.default(codes, weight, scale, weight_scale, bias, activation, dtype)
    return found


class _Straight(torch.autograd.Function):
    """What is kept for the backward pass is the quantized input, 8 bits an element."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, weight_scale: Tensor, bias: Tensor | None, activation: str
    ) -> Tensor:
        codes, scale = calls.quantize_rows_fp8.default(x)
        if activation == "none":
            ctx.save_for_backward(weight, weight_scale)
        else:
            ctx.save_for_backward(weight, weight_scale, codes, scale, bias)
        ctx.activation, ctx.of_bias = activation, None if bias is None else bias.dtype
        return _product(codes, scale, weight, weight_scale, bias, activation, x.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        """The sums before the activation are computed once more: keeping them would cost a second result."""
        weight, weight_scale, *rest = ctx.saved_tensors
        if rest:
            codes, scale, bias = rest
            wide = torch.float64 if grad.dtype == torch.float64 else torch.float32
            z = _product(codes, scale, weight, weight_scale, bias, "none", wide)
            grad = (grad.to(wide) * slope(z, ctx.activation)).to(grad.dtype)
        by_x = by_bias = None
        with without_autocast(grad.device):  # backward() may be called within it
            if ctx.needs_input_grad[0]:
                by_x = torch.matmul(grad, dequantized(weight, weight_scale, grad.dtype))
            if ctx.needs_input_grad[3]:
                by_bias = grad.reshape(-1, grad.shape[-1]).sum(0).to(ctx.of_bias)
        return by_x, None, None, by_bias, None


def quantize_fp8_(
    model: torch.nn.Module, skip: Iterable[str] | None = None, *, show_progress: bool | None = None
) -> torch.nn.Module:
    """Replaces every torch.nn.Linear of a model by a LinearFP8, in place; returns the model.

    skip  names of modules to leave as they are, as in quantize_. None: the output layer stays

    A layer whose weight another module shares stays as it is, and so do subclasses of torch.nn.Linear.

    >>> model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    >>> quantize_fp8_(model, skip=["2"])
    """
    found = _found(model, skip)
    for name, old in found:  # before the first is replaced: a model must not be left half done
        if old.weight.dtype not in _FLOATS:
            raise InvalidDtype(
                f"quantize_fp8_: {name!r} has a weight of {old.weight.dtype}, but must have torch.float32, "
                "torch.float16 or torch.bfloat16"
            )
    for name, old in progress(found, "quantizing", show_progress):
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent), last, _as_before(LinearFP8.from_linear(old), old))
    return model
