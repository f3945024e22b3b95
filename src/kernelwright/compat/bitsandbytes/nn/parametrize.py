# SPDX-License-Identifier: MIT
"""bitsandbytes.nn.parametrize: any parameter of a module in 4 bits, dequantized where it is read.

What is not the weight of a linear layer, such as experts that lie in one tensor, becomes small so without a change of
the module's code. Within one forward a parameter is dequantized once.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.utils.parametrize as P  # noqa: N812

from kernelwright.compat.bitsandbytes._four_bit import dequantize_4bit, quantize_4bit
from kernelwright.nn.quant_state import QuantState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

__all__ = ["Bnb4bitParametrization", "replace_parameter_4bit", "replace_parameter_4bit_prequantized"]


class Bnb4bitParametrization(torch.nn.Module):
    """Codes in, the floats that they stand for out."""

    def __init__(self, quant_state: QuantState) -> None:
        super().__init__()
        self.quant_state = quant_state

    @torch.no_grad()
    def forward(self, quantized_param: Tensor) -> Tensor:
        return dequantize_4bit(quantized_param, self.quant_state)


def _parameter(module: torch.nn.Module, name: str) -> torch.nn.Parameter:
    if not hasattr(module, name):
        raise AttributeError(f"Module does not have parameter {name!r}: {type(module).__name__}")
    found = getattr(module, name)
    if not isinstance(found, torch.nn.Parameter):
        raise TypeError(
            f"Parameter {name!r} is not an instance of nn.Parameter, but a {type(found).__name__}, in "
            f"{type(module).__name__}"
        )
    return found


def replace_parameter_4bit(
    module: torch.nn.Module,
    param_name: str,
    compress_statistics: bool = False,
    quant_type: str = "nf4",
    blocksize: int | None = None,
) -> None:
    """Quantizes a parameter to 4 bits; the module reads its values as before.

    >>> replace_parameter_4bit(model.experts, "gate_up_proj", quant_type="nf4")
    """
    codes, state = quantize_4bit(
        _parameter(module, param_name).data,
        blocksize=blocksize,
        compress_statistics=compress_statistics,
        quant_type=quant_type,
    )
    setattr(module, param_name, torch.nn.Parameter(codes, requires_grad=False))
    _parametrize(module, param_name, state)


def replace_parameter_4bit_prequantized(
    module: torch.nn.Module, param_name: str, qs_dict: Mapping[str, Any], device: Any
) -> None:
    """The same of a parameter that holds codes already; `qs_dict` has the parts of their state."""
    _parameter(module, param_name)
    _parametrize(module, param_name, QuantState.from_dict(qs_dict, device=device))


def _parametrize(module: torch.nn.Module, name: str, state: QuantState) -> None:
    P.register_parametrization(module, name, Bnb4bitParametrization(state), unsafe=True)
    _register_parametrization_hooks(module, name)


def _register_parametrization_hooks(module: torch.nn.Module, param_name: str) -> None:
    if hasattr(module, "register_state_dict_post_hook"):
        module.register_state_dict_post_hook(partial(_parametrized_state_dict_post_hook, param_name=param_name))
    module.register_forward_pre_hook(_enable_parametrization_cache)
    # Also where the forward was cut short, as checkpointing does: what was kept would stay for ever.
    module.register_forward_hook(_disable_parametrization_cache, always_call=True)


def _enable_parametrization_cache(module: Any, inputs: Any) -> None:
    del module, inputs
    P._cache_enabled += 1  # noqa: SLF001 - P.cached() is a context, and hooks are two functions


def _disable_parametrization_cache(module: Any, inputs: Any, output: Any) -> None:
    del module, inputs, output
    P._cache_enabled = max(0, P._cache_enabled - 1)  # noqa: SLF001 - it may run without the other
    if not P._cache_enabled:  # noqa: SLF001
        P._cache = {}  # noqa: SLF001


def _parametrized_state_dict_post_hook(
    module: Any, state_dict: dict[str, Any], prefix: str, local_metadata: Any, *, param_name: str = "weight", **_: Any
) -> None:
    """In a state dict the codes stand under the parameter's own name, with the parts of their state beside them."""
    del local_metadata
    held = f"{prefix}parametrizations.{param_name}.original"
    if held not in state_dict:
        return
    state_dict[prefix + param_name] = state_dict.pop(held)
    for each in module.get_submodule(f"parametrizations.{param_name}").children():
        if isinstance(each, Bnb4bitParametrization):
            parts = each.quant_state.as_dict(packed=True).items()
            state_dict.update({f"{prefix}{param_name}.{name}": value for name, value in parts})
