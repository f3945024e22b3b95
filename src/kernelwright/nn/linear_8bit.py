# SPDX-License-Identifier: MIT
"""Linear layers whose weight is held in 8 bits (LLM.int8)."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch

from kernelwright.errors import InvalidArgument
from kernelwright.nn._layer_8bit import Layer8bit
from kernelwright.nn.matmul_8bit import MatmulLtState, matmul_8bit
from kernelwright.nn.params_8bit import Int8Params

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Linear8bitLt"]


class Linear8bitLt(Layer8bit, torch.nn.Linear):
    """torch.nn.Linear in 8 bits: bitsandbytes' arguments, state dict and behaviour.

    The weight is quantized when the layer is first moved to a device, the CPU too, and the input in each call.
    Gradients reach the input and the bias, and the weight if has_fp16_weights.

    input_features, output_features, bias, device    as torch.nn.Linear has them
    has_fp16_weights  the weight stays in 16 bits and is quantized in each step: to train it
    threshold         inputs of this size or more are outliers: their columns are computed in 16 bits. 0: none are
    index             of no meaning, as in bitsandbytes

    Unlike bitsandbytes' it loads a quantized state dict before it was moved to a device, too, and an ordinary `weight`
    into a quantized layer (it is quantized on the way in).

    >>> layer = Linear8bitLt(64, 128, has_fp16_weights=False, threshold=6.0)
    >>> layer.load_state_dict(torch.nn.Linear(64, 128).state_dict())
    >>> layer = layer.to("cpu")  # quantized here
    >>> layer(torch.randn(3, 64)).shape
    """

    def __init__(
        self,
        input_features: int,
        output_features: int,
        bias: bool = True,
        has_fp16_weights: bool = True,
        threshold: float = 0.0,
        index: Any = None,
        device: Any = None,
    ) -> None:
        super().__init__(input_features, output_features, bias, device)
        self.state = MatmulLtState(
            threshold=threshold,
            has_fp16_weights=has_fp16_weights,
            use_pool=threshold > 0.0 and not has_fp16_weights,
        )
        self.index = index
        self.weight = Int8Params(self.weight.data, has_fp16_weights=has_fp16_weights, requires_grad=has_fp16_weights)

    def extra_repr(self) -> str:
        state = self.state
        kept = "16-bit weight, " if state.has_fp16_weights else ""
        return f"{super().extra_repr()}, {kept}threshold={state.threshold}"

    def _scales(self) -> Tensor | None:
        if self.state.has_fp16_weights:
            return None
        found = super()._scales()
        return self.state.SCB if found is None else found

    def _keep(self, scales: Tensor | None) -> None:
        super()._keep(scales)
        if self.state.SCB is not None:
            self.state.CB, self.state.SCB = self.weight.data, scales

    def _forget(self) -> None:
        self.state.reset_grads()

    def init_8bit_state(self) -> None:
        """The state takes the weight's codes and scales over, as bitsandbytes' layer has it."""
        weight, state = self.weight, self.state
        state.CB, state.SCB = weight.CB, weight.SCB
        weight.CB = weight.SCB = None

    def _replicate_for_data_parallel(self) -> Any:
        """torch.nn.DataParallel copies tensors of parameters to other devices, and all else as it is."""
        if getattr(self.weight, "CB", None) is not None:
            self.init_8bit_state()
        made: Any = super()._replicate_for_data_parallel()
        made.state = copy.copy(self.state)
        return made

    def _follow(self) -> None:
        """In such a copy: codes and scales where its weight is."""
        weight, state = self.weight, self.state
        if state.has_fp16_weights:
            state.reset_grads()
        elif state.SCB is not None and state.SCB.device != weight.device:
            state.CB, state.SCB = weight.detach(), state.SCB.to(weight.device)

    def forward(self, x: Tensor) -> Tensor:
        weight, state = self.weight, self.state
        if "_is_replica" in self.__dict__:
            self._follow()
        state.is_training = self.training
        if getattr(weight, "CB", None) is not None:
            self.init_8bit_state()
        if not state.has_fp16_weights and state.CB is None:
            raise InvalidArgument(
                f"{type(self).__name__}: its weight of shape {tuple(weight.shape)} is not quantized yet: move the "
                "layer to the device where it is to run, layer.to(device); on the CPU layer.to('cpu')"
            )
        bias = self.bias
        if bias is not None and bias.dtype is not x.dtype:
            bias = bias.to(x.dtype)
        return matmul_8bit(x, weight, bias=bias, state=state)
