# SPDX-License-Identifier: MIT
"""The experts of a mixture, whose weights are held in 4 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kernelwright.errors import InvalidArgument
from kernelwright.nn import _experts, _four_bit
from kernelwright.nn.params_4bit import Params4bit

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Experts4bit"]

_as_it_is = torch._C.DisableTorchFunctionSubclass  # noqa: SLF001 - it has no public name


class Experts4bit(_experts.Held4bit):
    """In place of a module of experts of transformers 5, whose weights lie in tensors of three dimensions.

    Tokens are sorted by expert, and the products of all experts are one launch on a GPU, which nobody waits for.
    Gradients reach the tokens and the routing weights; the experts are frozen.

    like                 the module whose place it takes; what it has besides its weights is shared
    compute_dtype        tokens are converted to it, the output back; None: computed in the tokens' type
    compress_statistics  double quantization; left out where experts would share 256 scales
    quant_type, blocksize, quant_storage    as Linear4bit and Params4bit have them

    The weights keep their names (`gate_up_proj`, `down_proj`), and lie in a state dict as those that bitsandbytes'
    `replace_parameter_4bit` made. They are quantized when the module is first moved to a device.

    >>> layer.mlp.experts = Experts4bit(layer.mlp.experts, quant_type="nf4").to("cuda")
    """

    num_experts: int
    has_gate: bool
    has_bias: bool
    is_transposed: bool
    act_fn: Any
    post_expert_norm: Any

    def __init__(
        self,
        like: torch.nn.Module,
        compute_dtype: torch.dtype | None = None,
        compress_statistics: bool = True,
        quant_type: str = "fp4",
        quant_storage: torch.dtype = torch.uint8,
        blocksize: int = 64,
    ) -> None:
        super().__init__()
        _four_bit.check_compute(type(self).__name__, compute_dtype)
        reason = _experts.why_not(like, blocksize)
        if reason:
            raise InvalidArgument(f"Experts4bit: {type(like).__name__}: {reason}")
        for name, value in vars(like).items():
            if name not in self.__dict__ or name == "training":
                self.__dict__[name] = value
        self.source_cls: Any = type(like)
        self.compute_dtype, self.quant_storage = compute_dtype, quant_storage
        self.names = _experts.names(like)
        for name, module in like.named_children():
            setattr(self, name, module)
        for name, buffer in like.named_buffers(recurse=False):
            self.register_buffer(name, buffer)
        for name, parameter in like.named_parameters(recurse=False):
            setattr(self, name, parameter)
        for name in self.names:
            wide = _experts.upright(getattr(like, name).detach(), self.is_transposed)
            setattr(
                self,
                name,
                Params4bit(
                    wide,
                    blocksize=blocksize,
                    compress_statistics=compress_statistics and _experts.may_nest(wide.shape, blocksize),
                    quant_type=quant_type,
                    quant_storage=quant_storage,
                ),
            )

    def extra_repr(self) -> str:
        weight = getattr(self, self.names[0])
        count, rows, columns = weight.quant_state.shape if weight.quant_state else weight.shape
        return f"{self.source_cls.__name__}, {count} experts, {columns} to {rows}, {weight.quant_type}"

    def forward(self, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
        _four_bit.check_input(self, hidden_states)
        top = top_k_index.shape[-1]
        chosen, order = torch.sort(top_k_index.reshape(-1), stable=True)
        numbers = torch.arange(self.num_experts, device=chosen.device)
        ends = torch.searchsorted(chosen, numbers, right=True, out_int32=True)
        x = hidden_states[order // top].to(self.compute_dtype or hidden_states.dtype)
        x = self._product(self.names[0], x, ends, chosen)
        x = getattr(self.source_cls, _experts.GATE)(self, x) if self.has_gate else self.act_fn(x)
        x = self._product("down_proj", x, ends, chosen)
        if getattr(self, "has_post_expert_norm", False):
            x = self.post_expert_norm(x)
        x = x * top_k_weights.reshape(-1)[order].unsqueeze(-1)
        back = torch.empty_like(order)
        back[order] = torch.arange(order.numel(), device=order.device)
        found: Tensor = x[back].view(-1, top, x.shape[-1]).sum(1)
        return found.to(hidden_states.dtype)

    def _product(self, name: str, x: Tensor, ends: Tensor, chosen: Tensor) -> Tensor:
        with _as_it_is():  # the weight's class has a way of its own through Python
            y = _four_bit.grouped(x, getattr(self, name), self._state(name), ends)
        if not self.has_bias:
            return y
        # What is for no expert of this process is 0 by its routing weight.
        of = getattr(self, f"{name}_bias")[chosen.clamp(max=self.num_experts - 1)]
        return y + of.to(y.dtype)

    def dequantize(self, dtype: torch.dtype | None = None) -> Any:
        """The module whose place this one took, with what the codes say."""
        made: Any = object.__new__(self.source_cls)
        torch.nn.Module.__init__(made)
        own = {"names", "source_cls", "compute_dtype", "quant_storage"}
        made.__dict__.update({name: value for name, value in vars(self).items() if name not in own | vars(made).keys()})
        for name, module in self.named_children():
            setattr(made, name, module)
        for name, buffer in self.named_buffers(recurse=False):
            made.register_buffer(name, buffer)
        for name, parameter in self.named_parameters(recurse=False):
            setattr(made, name, self._wide(name, dtype) if name in self.names else parameter)
        return made.train(self.training)

    def _wide(self, name: str, dtype: torch.dtype | None) -> torch.nn.Parameter:
        wide = _four_bit.dequantize(getattr(self, name).data, self._state(name))
        wide = _experts.upright(wide.to(dtype or wide.dtype), self.is_transposed)
        return torch.nn.Parameter(wide, requires_grad=False)
