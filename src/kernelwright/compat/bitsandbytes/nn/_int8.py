# SPDX-License-Identifier: MIT
"""Layers with a weight of 8-bit integers: LLM.int8, with bitsandbytes' arguments, state and checkpoints."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch

from kernelwright.compat.bitsandbytes.autograd._functions import matmul
from kernelwright.compat.bitsandbytes.autograd._int8 import MatmulLtState
from kernelwright.compat.bitsandbytes.utils import INVERSE_LINEAR_8BIT_WEIGHTS_FORMAT_MAPPING
from kernelwright.integrations import _bitsandbytes_int8 as kernels

if TYPE_CHECKING:
    from torch import Tensor

_LARGEST = 127.0


class Int8Params(torch.nn.Parameter):
    """A weight that is quantized by rows when it leaves the CPU, or is moved to it; `CB` its codes, `SCB` the scales.

    has_fp16_weights    it stays as it is, and is quantized in each forward: for training
    """

    data: Any
    CB: Tensor | None
    SCB: Tensor | None
    has_fp16_weights: bool

    def __new__(  # noqa: PYI034 - typing has no Self before Python 3.11
        cls,
        data: Tensor | None = None,
        requires_grad: bool = True,
        has_fp16_weights: bool = False,
        CB: Tensor | None = None,
        SCB: Tensor | None = None,
        **_: Any,  # what a loader has noted on the parameter that this one replaces
    ) -> Int8Params:
        self = torch.Tensor._make_subclass(cls, torch.empty(0) if data is None else data, requires_grad)  # noqa: SLF001
        self.CB, self.SCB, self.has_fp16_weights = CB, SCB, has_fp16_weights
        return self

    def _quantize(self, device: Any) -> Any:
        if self.has_fp16_weights:
            return super().to(device)
        codes, scales, _ = kernels.int8_vectorwise_quant(self.data.contiguous().to(device, torch.float16))
        self.data = self.CB = codes
        self.SCB = scales
        return self

    def cpu(self, *_: Any, **__: Any) -> Any:
        return self.to(device="cpu")

    def cuda(self, device: Any = None, non_blocking: bool = False) -> Any:
        return self.to(device="cuda" if device is None else device, non_blocking=non_blocking)

    def __deepcopy__(self, memo: dict[int, Any]) -> Int8Params:
        parts = {name: copy.deepcopy(getattr(self, name), memo) for name in ("CB", "SCB")}
        data = copy.deepcopy(self.data, memo)
        return type(self)(data, self.requires_grad, self.has_fp16_weights, **parts)

    def to(self, *args: Any, **kwargs: Any) -> Any:
        device, dtype, non_blocking, _ = torch._C._nn._parse_to(*args, **kwargs)  # noqa: SLF001
        quantized = self.data.dtype is torch.int8
        if not quantized and device is not None and device.type != "meta" and self.data.device.type == "cpu":
            return self._quantize(device)
        kind = None if quantized else dtype  # a model's type is not that of codes
        moved = super().to(device=device, dtype=kind, non_blocking=non_blocking)
        made = type(self)(moved, self.requires_grad, self.has_fp16_weights)
        if quantized:
            made.CB = made.data
            if self.SCB is not None:
                there = self.SCB.device.type == "meta" or device is None
                made.SCB = self.SCB if there else self.SCB.to(device)
        return made


def maybe_rearrange_weight(
    state_dict: Any,
    prefix: str,
    local_metadata: Any,
    strict: Any,
    missing_keys: Any,
    unexpected_keys: Any,
    error_msgs: Any,
) -> None:
    """Takes a checkpoint's note of the codes' order out of it; only rows are known."""
    del local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    if state_dict.get(f"{prefix}weight") is None:
        return
    order = state_dict.pop(f"{prefix}weight_format", "row")
    order = order.item() if isinstance(order, torch.Tensor) else order
    named = INVERSE_LINEAR_8BIT_WEIGHTS_FORMAT_MAPPING.get(order, order)
    if named != "row":
        raise ValueError(f"{prefix}weight: its codes are in the order {named!r}, but only 'row' is supported")


class Linear8bitLt(torch.nn.Linear):
    """torch.nn.Linear with a weight of 8-bit integers, whose input is quantized too, row by row.

    input_features, output_features, bias, device    as torch.nn.Linear has them
    has_fp16_weights    the weight stays in 16 bits and is quantized in each forward; False: once, in the first move
    threshold           columns of the input with an element of at least this size are multiplied in its own type;
                        0: none

    >>> layer = Linear8bitLt(64, 128, has_fp16_weights=False, threshold=6.0).to("cpu")
    >>> layer(torch.randn(3, 64).half()).shape
    """

    weight: Any

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
        self.index = index
        self.state = MatmulLtState()
        self.state.threshold, self.state.has_fp16_weights = threshold, has_fp16_weights
        self.state.use_pool = threshold > 0 and not has_fp16_weights
        self.weight = Int8Params(self.weight.data, has_fp16_weights, has_fp16_weights)
        self._register_load_state_dict_pre_hook(maybe_rearrange_weight)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        scales = getattr(self.weight, "SCB", None)
        scales = self.state.SCB if scales is None else scales
        if not self.state.has_fp16_weights and scales is not None:
            destination[f"{prefix}SCB"] = scales if keep_vars else scales.detach()
            destination[f"{prefix}weight_format"] = torch.tensor(0, dtype=torch.uint8)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        key = f"{prefix}SCB"
        if key not in unexpected_keys:
            return
        if getattr(self.weight, "SCB", None) is None:
            raise RuntimeError(
                "Loading a quantized checkpoint into non-quantized Linear8bitLt cannot work: move the layer to its "
                "device first, layer.to(device)"
            )
        self.weight.SCB.copy_(state_dict[key])
        if self.state.SCB is not None:
            self.state.SCB = self.weight.SCB
        unexpected_keys.remove(key)

    def init_8bit_state(self) -> None:
        self.state.CB, self.state.SCB = self.weight.CB, self.weight.SCB
        self.weight.CB = self.weight.SCB = None

    def to(self, *args: Any, **kwargs: Any) -> Any:
        found = super().to(*args, **kwargs)
        device = torch._C._nn._parse_to(*args, **kwargs)[0]  # noqa: SLF001
        for name in ("CB", "SCB"):
            if device is not None and getattr(found.state, name) is not None:
                setattr(found.state, name, getattr(found.state, name).to(device))
        return found

    def forward(self, x: Tensor) -> Tensor:
        self.state.is_training = self.training
        if self.weight.CB is not None:
            self.init_8bit_state()
        if self.bias is not None and self.bias.dtype is not x.dtype:
            self.bias.data = self.bias.data.to(x.dtype)
        y = matmul(x, self.weight, bias=self.bias, state=self.state)
        if not self.state.has_fp16_weights and self.state.CB is not None:
            self.weight.data = self.state.CB
        return y


class Embedding8bit(torch.nn.Embedding):
    """torch.nn.Embedding with a frozen table of 8-bit integers, quantized by rows when it is first moved."""

    weight: Any

    def __init__(self, num_embeddings: int, embedding_dim: int, device: Any = None, dtype: Any = None) -> None:
        super().__init__(num_embeddings, embedding_dim, device=device, dtype=dtype)
        self.dtype = self.weight.dtype
        self.weight = Int8Params(self.weight.data, has_fp16_weights=False, requires_grad=False)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        raise NotImplementedError("Embedding8bit: it cannot be saved, as in bitsandbytes; save the table it is made of")

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        if self.weight.SCB is None:
            raise RuntimeError("Embedding8bit: it is not quantized yet; move it to its device, layer.to(device)")
        codes = torch.nn.functional.embedding(input, self.weight.data)
        scales = torch.nn.functional.embedding(input, self.weight.SCB.view(-1, 1))
        found: Tensor = codes * (scales / _LARGEST)
        return found.to(self.dtype)
