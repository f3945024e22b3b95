# SPDX-License-Identifier: MIT
"""Linear layers whose weight is held in 4 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kernelwright.nn import _four_bit
from kernelwright.nn._layer_4bit import Layer4bit
from kernelwright.nn.params_4bit import Params4bit

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Linear4bit", "LinearFP4", "LinearNF4"]

_compiling = torch.compiler.is_dynamo_compiling
_as_it_is = torch._C.DisableTorchFunctionSubclass  # noqa: SLF001 - it has no public name


class Linear4bit(Layer4bit, torch.nn.Linear):
    """torch.nn.Linear with a 4-bit weight: bitsandbytes' arguments, state dict and behaviour.

    The weight is quantized when the layer is first moved to a device, the CPU too; it is frozen from the start.
    Gradients reach the input and the bias.

    input_features, output_features, bias, device    as torch.nn.Linear has them
    compute_dtype        the input is converted to it, the output back; None: computed in the input's type
    compress_statistics  double quantization: the scales in 8 bits, 4.13 bits a weight instead of 4.5
    quant_type           "fp4" or "nf4"
    quant_storage        the type that the packed bytes are seen as; FSDP wants that of the other parameters

    A bias of another type than the layer computes in is converted in the first forward, for good.

    Unlike bitsandbytes' it also loads quantized state dicts, with torch's strictness, and an ordinary `weight` into a
    quantized layer (it is quantized on the way in).

    >>> layer = Linear4bit(64, 128, quant_type="nf4")
    >>> layer.load_state_dict(torch.nn.Linear(64, 128).state_dict())
    >>> layer = layer.to("cpu")  # quantized here
    >>> layer(torch.randn(3, 64)).shape
    """

    adds_bias = True
    """False: kernelwright.distributed adds it, once what processes computed is summed up."""

    def __init__(
        self,
        input_features: int,
        output_features: int,
        bias: bool = True,
        compute_dtype: torch.dtype | None = None,
        compress_statistics: bool = True,
        quant_type: str = "fp4",
        quant_storage: torch.dtype = torch.uint8,
        device: Any = None,
    ) -> None:
        _four_bit.check_compute(type(self).__name__, compute_dtype)
        super().__init__(input_features, output_features, bias, device)
        self.compute_dtype = compute_dtype
        self.quant_storage = quant_storage
        self.quant_state = None
        self.weight = Params4bit(
            self.weight.data,
            compress_statistics=compress_statistics,
            quant_type=quant_type,
            quant_storage=quant_storage,
            module=self,
        )

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, {self._describe()}"

    def forward(self, x: Tensor) -> Tensor:
        state = self._state()
        _four_bit.check_input(self, x)
        bias, kind = self.bias if self.adds_bias else None, x.dtype
        compute = self.compute_dtype or kind
        if kind is not compute:
            x = x.to(compute)
        if bias is not None and bias.dtype is not compute:
            if compute.is_floating_point and not _compiling():  # for good, as bitsandbytes does it
                bias.data = bias.data.to(compute)
            bias = bias.to(compute)
        with _as_it_is():  # the weight's class has a way of its own through Python
            y = _four_bit.linear(x, self.weight, state, bias)
        return y if kind is compute else y.to(kind)

    def _unpacked_shape(self) -> tuple[int, int]:
        return self.out_features, self.in_features


class LinearFP4(Linear4bit):
    """Linear4bit with the FP4 values: a sign, two bits of exponent, one of mantissa."""

    def __init__(
        self,
        input_features: int,
        output_features: int,
        bias: bool = True,
        compute_dtype: torch.dtype | None = None,
        compress_statistics: bool = True,
        quant_storage: torch.dtype = torch.uint8,
        device: Any = None,
    ) -> None:
        super().__init__(
            input_features, output_features, bias, compute_dtype, compress_statistics, "fp4", quant_storage, device
        )


class LinearNF4(Linear4bit):
    """Linear4bit with the NF4 values: quantiles of a normal distribution, which weights nearly have."""

    def __init__(
        self,
        input_features: int,
        output_features: int,
        bias: bool = True,
        compute_dtype: torch.dtype | None = None,
        compress_statistics: bool = True,
        quant_storage: torch.dtype = torch.uint8,
        device: Any = None,
    ) -> None:
        super().__init__(
            input_features, output_features, bias, compute_dtype, compress_statistics, "nf4", quant_storage, device
        )
