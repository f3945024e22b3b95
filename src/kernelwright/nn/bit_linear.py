# SPDX-License-Identifier: MIT
"""Linear layers of ternary weights: BitNet b1.58."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kernelwright.errors import InvalidArgument, Unsupported
from kernelwright.nn import _summed
from kernelwright.nn._progress import progress
from kernelwright.nn._straight import CLAMP, Straight
from kernelwright.nn.norm import RMSNorm
from kernelwright.nn.quantize import _as_before, _found
from kernelwright.nn.ternary_formats import pack_ternary, pack_transformers, unpack_transformers
from kernelwright.ops._calls import calls

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor

__all__ = ["BitLinear", "ternarize_"]

_OF_A_PRODUCT = ("weight", "weight_scale", "packed", "bias", "group", "rms_norm")


class BitLinear(torch.nn.Module):
    """A linear layer whose weight is -1, 0 or 1 times a scale, and whose input is quantized to 8 bits row by row.

    packed=False: a weight in floats that is quantized in every forward pass, with straight-through gradients, for
    training: transformers' AutoBitLinear with online quantization. Its state dict is torch.nn.Linear's.
    packed=True: the weight in two bits, for inference. Its state dict is that of transformers' BitLinear: `weight`,
    uint8 [ceil(out_features / 4), in_features], and `weight_scale`, byte for byte as they were loaded. In memory codes
    lie in another order, which kernels want. `pack_()` makes the second of the first.

    divides       packed: results are divided by weight_scale (transformers' BitLinear); else they are multiplied
                  (AutoBitLinear)
    rms_norm_eps  a norm of the input first, with a weight of its own, `rms_norm.weight`; in inference it is one pass
                  with the quantization. None: no norm
    per_row       packed=False: a scale for each row of the weight

    >>> layer = kernelwright.nn.BitLinear(2560, 6912)
    >>> layer.pack_()
    """

    weight: Any
    weight_scale: Any
    packed: Any
    scale: Any
    group: Any = None
    """Of the processes that have the other columns of the weight, where kernelwright.distributed has shared them."""
    joined: Any = None
    """A nn._joined_ternary.JoinedTernary, where the weights of several layers lie together."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = False,
        *,
        packed: bool = False,
        divides: bool = True,
        rms_norm_eps: float | None = None,
        per_row: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features, self.divides, self.per_row = in_features, out_features, divides, per_row
        here = {"device": device, "dtype": dtype}
        for name in ("packed", "scale"):
            self.register_buffer(name, None, persistent=False)
        self.register_buffer("weight_scale", None)
        if packed:
            self.weight = None
            shape = ((out_features + 3) // 4, in_features)
            self._hold(torch.full(shape, 0x55, dtype=torch.uint8, device=device), torch.ones(1, **here))
        else:
            self.weight = torch.nn.Parameter(torch.empty((out_features, in_features), **here))
            torch.nn.init.kaiming_uniform_(self.weight, a=5**0.5)
        self.bias = torch.nn.Parameter(torch.zeros(out_features, **here)) if bias else None
        self.rms_norm = None if rms_norm_eps is None else RMSNorm(in_features, eps=rms_norm_eps, **here)

    @classmethod
    def from_values(
        cls, values: Tensor, weight_scale: Tensor, bias: Tensor | None = None, **settings: Any
    ) -> BitLinear:
        """A packed layer of a matrix of -1, 0 and 1."""
        n, k = values.shape
        made = cls(k, n, packed=True, device="meta", dtype=weight_scale.dtype, **settings)
        made.packed, made.weight_scale, made.scale = pack_ternary(values), weight_scale.detach(), None
        made.bias = None if bias is None else torch.nn.Parameter(bias.detach(), requires_grad=False)
        return made

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if self.joined is not None and name in _OF_A_PRODUCT:
            self.joined.drop()

    def extra_repr(self) -> str:
        kind = "in floats" if self.weight is not None else "packed"
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, {kind}"

    def pack_(self) -> BitLinear:
        """Quantizes the weight once and for all; what trains it is gone."""
        if self.weight is None:
            return self
        with torch.no_grad():
            packed, scale = calls.quantize_ternary.default(self.weight.detach(), self.per_row)
        dtype = self.weight.dtype
        self.weight, self.packed, self.divides = None, packed, False
        self.weight_scale, self.scale = scale.to(dtype), scale
        return self

    def _hold(self, stored: Tensor, weight_scale: Tensor) -> None:
        """The weight as transformers stores it."""
        if stored.is_meta:
            self.packed = stored.new_empty((0,))
        else:
            self.packed = unpack_transformers(stored, self.out_features)
        self.weight_scale, self.scale = weight_scale, None

    def _factor(self) -> Tensor:
        """What 1 stands for, in float32; made once."""
        if self.scale is None or self.scale.device != self.packed.device:
            single = self.weight_scale.detach().to(device=self.packed.device, dtype=torch.float32).reshape(-1)
            self.scale = 1.0 / single if self.divides else single
        return self.scale

    def forward(self, x: Tensor) -> Tensor:
        x = _cast(x)
        if self.weight is None and not self._trains(x):
            return self._product(x)
        if self.group is not None:
            raise Unsupported(
                "BitLinear: sharded by columns over processes it has no gradient; call it under no_grad()"
            )
        if self.rms_norm is not None:
            x = self.rms_norm(x)
        if self.weight is not None:
            return Straight.apply(x, self.weight, self.bias, self.per_row)
        return _Frozen.apply(x, self.packed, self._factor(), self.bias, self.out_features)

    def _trains(self, x: Tensor) -> bool:
        """Whether a gradient is wanted: of x, or of a bias or norm that packing has left to train."""
        return torch.is_grad_enabled() and (x.requires_grad or any(p.requires_grad for p in self.parameters()))

    def _product(self, x: Tensor) -> Tensor:
        norm = self.rms_norm
        if self.group is not None:
            return _summed.product(x, self.packed, self._factor(), self.out_features, self.bias, self.group)
        return self.normed(x, None if norm is None else (norm.weight, norm.eps))

    def takes_norm(self) -> bool:
        """Whether a norm before the layer may be one pass with its quantization."""
        learns = self.bias is not None and self.bias.requires_grad and torch.is_grad_enabled()
        return self.weight is None and self.group is None and self.rms_norm is None and not learns

    def normed(self, x: Tensor, norm: tuple[Any, Any] | None) -> Tensor:
        """Of x behind an RMS norm of this weight and eps, without gradients."""
        return _product(x, self.packed, self._factor(), self.bias, self.out_features, norm)

    # --- state dicts --------------------------------------------------------------

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.weight is None:
            destination[f"{prefix}weight"] = pack_transformers(self.packed, self.out_features, self.in_features)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing: Any,
        unexpected: Any,
        errors: Any,
    ) -> None:
        stored = state_dict.get(f"{prefix}weight")
        if self.weight is None or getattr(stored, "dtype", None) is torch.uint8:
            state_dict = dict(state_dict)
            scale = state_dict.pop(f"{prefix}weight_scale", None)
            state_dict.pop(f"{prefix}weight", None)
            for name, part in (("weight", stored), ("weight_scale", scale)):
                if part is None:
                    missing.append(f"{prefix}{name}")
            if stored is not None and scale is not None:
                self._take(stored, scale, f"{prefix}weight", errors)
            kept, self.weight_scale = self.weight_scale, None  # it was loaded here
            super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing, unexpected, errors)
            self.weight_scale = kept
            return
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing, unexpected, errors)

    def _take(self, stored: Tensor, scale: Tensor, key: str, errors: list[str]) -> None:
        old = self.packed if self.weight is None else self.weight
        device = stored.device if old.is_meta else old.device
        if stored.shape[-1] != self.in_features or scale.numel() not in (1, self.out_features):
            errors.append(
                f"{key}: is {tuple(stored.shape)} with {scale.numel()} scales in the checkpoint, of a layer of "
                f"{self.out_features} x {self.in_features}"
            )
            return
        try:
            self._hold(stored.detach().to(device), scale.detach().clone().to(device))
            self.weight = None
        except InvalidArgument as error:
            errors.append(f"{key}: {error}")

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        """The factor stays in float32, whatever type the layer is given; weight_scale keeps its own."""
        kept = self.weight_scale
        result = super()._apply(fn, recurse)
        if kept is not None and self.weight_scale is not None and self.weight_scale.dtype is not kept.dtype:
            self._buffers["weight_scale"] = kept.to(self.weight_scale.device)
        self.scale = None
        if self.joined is not None and not self.joined.has(self.packed):
            self.joined.drop()
        return result


def _cast(x: Tensor) -> Tensor:
    kind = x.device.type
    return x.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else x


def _product(
    x: Tensor, packed: Tensor, scale: Tensor, bias: Tensor | None, n: int, norm: tuple[Any, Any] | None = None
) -> Tensor:
    weight, eps = (None, -1.0) if norm is None else norm
    if weight is not None and weight.dtype not in (x.dtype, torch.float32):
        weight = weight.to(x.dtype)
    codes, absmax = calls.quantize_rows_int8.default(x, weight, eps, CLAMP)
    given = None if bias is None else bias.to(x.dtype)
    found: Tensor = calls.matmul_ternary.default(codes, packed, absmax, scale, given, n, x.dtype)
    return found


def frozen(
    x: Tensor, packed: Tensor, scale: Tensor, bias: Tensor | None, n: int, norm: tuple[Any, Any] | None
) -> Tensor:
    """What a layer of a packed weight gives; with a norm, without gradients."""
    x = _cast(x)
    if norm is None and torch.is_grad_enabled() and x.requires_grad:
        found: Tensor = _Frozen.apply(x, packed, scale, bias, n)
        return found
    return _product(x, packed, scale, bias, n, norm)


class _Frozen(torch.autograd.Function):
    """A packed layer that gradients pass through, to adapters before it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, packed: Tensor, scale: Tensor, bias: Tensor | None, n: int) -> Tensor:
        ctx.save_for_backward(packed, scale)
        ctx.sizes = n, x.shape[-1]
        return _product(x, packed, scale, bias, n)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        packed, scale = ctx.saved_tensors
        dense = calls.dequantize_ternary.default(packed, scale, *ctx.sizes, grad.dtype)
        by_bias = grad.reshape(-1, grad.shape[-1]).sum(0) if ctx.needs_input_grad[3] else None
        return torch.matmul(grad, dense), None, None, by_bias, None


def ternarize_(
    model: torch.nn.Module,
    skip: Iterable[str] | None = None,
    *,
    packed: bool = False,
    per_row: bool = False,
    show_progress: bool | None = None,
) -> torch.nn.Module:
    """Replaces every torch.nn.Linear of a model by a BitLinear, in place; returns the model.

    skip     names of modules to leave as they are, as in quantize_. None: the output layer stays
    packed   quantize the weights now, for inference. False: layers that train, on the weights that are there
    per_row  a scale for each row of a weight instead of one for all

    >>> model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    >>> ternarize_(model, skip=["2"])
    """
    found = _found(model, skip)
    for name, old in progress(found, "ternarizing", show_progress):
        parent, _, last = name.rpartition(".")
        made = BitLinear(old.in_features, old.out_features, device="meta", per_row=per_row)
        made.weight, made.bias = old.weight, old.bias
        setattr(model.get_submodule(parent), last, _as_before(made.pack_() if packed else made, old))
    return model
