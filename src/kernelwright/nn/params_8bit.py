# SPDX-License-Identifier: MIT
"""The parameter of 8-bit layers: a weight until it is moved to a device, its codes from then on."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch

from kernelwright.nn import _int8

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Int8Params"]


class Int8Params(torch.nn.Parameter):
    """A weight that is quantized when it is first moved to a device with `.to(device)`, `.cuda()` or `.cpu()`.

    Arguments and attributes are those of bitsandbytes' class of this name.

    data              the weight, or with SCB its codes
    has_fp16_weights  it stays as it is, and the layer quantizes it in each step
    CB, SCB           its codes (those in `data`) and the largest size in each row; None before it is quantized, and
                      after a layer has taken them over

    >>> weight = Int8Params(torch.randn(64, 128), requires_grad=False).to("cpu")
    >>> weight.CB.dtype, weight.SCB.shape
    """

    data: Any
    CB: Any
    SCB: Any
    has_fp16_weights: bool

    # Operators take it as the tensor it is; results are plain tensors. Going through Python would cost microseconds.
    __torch_function__ = torch._C._disabled_torch_function_impl  # noqa: SLF001

    def __new__(  # noqa: PYI034 - typing has no Self before Python 3.11
        cls,
        data: Tensor | None = None,
        requires_grad: bool = True,
        has_fp16_weights: bool = False,
        CB: Tensor | None = None,  # noqa: N803 - bitsandbytes' names
        SCB: Tensor | None = None,  # noqa: N803
        **_: Any,  # what a loader has noted on the parameter that this one replaces
    ) -> Int8Params:
        data = torch.empty(0) if data is None else data
        self = torch.Tensor._make_subclass(cls, data, requires_grad and data.is_floating_point())  # noqa: SLF001
        self.CB, self.SCB, self.has_fp16_weights = CB, SCB, has_fp16_weights
        return self

    def detach(self) -> Int8Params:
        """torch asks for the same class here where it makes a parameter of a parameter, as in a move to meta."""
        return self._with(self.data, requires_grad=False)

    def _with(self, data: Tensor, **changes: Any) -> Int8Params:
        settings = {name: self.__dict__.get(name) for name in ("has_fp16_weights", "CB", "SCB")}
        return type(self)(data, **{"requires_grad": self.requires_grad} | settings | changes)

    def __copy__(self) -> Int8Params:
        return self._with(self.data)

    def __deepcopy__(self, memo: dict[int, Any]) -> Int8Params:
        if id(self) not in memo:
            data = copy.deepcopy(self.data, memo)
            codes = None if self.CB is None else data
            memo[id(self)] = self._with(data, CB=codes, SCB=copy.deepcopy(self.SCB, memo))
        found: Int8Params = memo[id(self)]
        return found

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        settings = {"has_fp16_weights": self.has_fp16_weights, "SCB": self.SCB, "held": self.CB is not None}
        return _rebuilt, (type(self), self.data, self.requires_grad, settings)

    def quantized(self, device: Any) -> Int8Params:
        """In place, wherever it is. By way of float16, as bitsandbytes does: so the codes are equal."""
        codes, scales, _ = _int8.vectorwise_quant(self.data.to(device=device, dtype=torch.float16).contiguous())
        self.requires_grad_(False)
        self.data = codes
        self.CB, self.SCB = codes, scales
        return self

    def to(self, *args: Any, **kwargs: Any) -> Int8Params:
        """As Tensor.to. A weight on the CPU that is not quantized yet is, in place, when a device is named."""
        device, dtype, non_blocking, _ = torch._C._nn._parse_to(*args, **kwargs)  # noqa: SLF001
        quantized = self.data.dtype is torch.int8
        here = self.data.device.type == "cpu" and device is not None and device.type != "meta"
        if here and not quantized and not self.has_fp16_weights:
            return self.quantized(device)
        moved = self.data.to(device=device, dtype=None if quantized else dtype, non_blocking=non_blocking)
        if not quantized:
            return self._with(moved)
        scales = self.SCB if self.SCB is None or self.SCB.is_meta else self.SCB.to(moved.device)
        return self._with(moved, CB=None if self.CB is None else moved, SCB=scales)

    def cpu(self, *_: Any, **__: Any) -> Int8Params:
        return self.to(device="cpu")

    def cuda(self, device: Any = None, non_blocking: bool = False) -> Int8Params:
        where = "cuda" if device is None else device
        where = f"cuda:{where}" if isinstance(where, int) else where
        return self.to(device=where, non_blocking=non_blocking)


def _rebuilt(cls: type[Int8Params], data: Tensor, requires_grad: bool, settings: dict[str, Any]) -> Int8Params:
    held = settings.pop("held")
    return cls(data, requires_grad, CB=data if held else None, **settings)
