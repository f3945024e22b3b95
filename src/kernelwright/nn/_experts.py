# SPDX-License-Identifier: MIT
"""What modules of experts look like, and how several 4-bit weights of one module move, are saved and loaded.

transformers 5 marks such modules: they say whether there is a gate, a bias, and which way their weights lie.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from kernelwright.errors import InvalidArgument
from kernelwright.nn import _four_bit
from kernelwright.nn._layer_4bit import PARTS, following, held
from kernelwright.nn.params_4bit import Params4bit
from kernelwright.nn.quant_state import QuantState
from kernelwright.ops.four_bit import _shared as four_bit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

GATE = "_apply_gate"
_MARKS = ("num_experts", "has_gate", "has_bias", "is_transposed")


def are_experts(module: Any) -> bool:
    return all(hasattr(module, name) for name in _MARKS) and hasattr(type(module), GATE)


def names(module: Any) -> tuple[str, str]:
    """Of the weights, in the order in which they are multiplied with."""
    return ("gate_up_proj" if module.has_gate else "up_proj"), "down_proj"


def why_not(module: Any, blocksize: int) -> str | None:
    """What keeps experts from being held in 4 bits, in words; None: nothing."""
    if not are_experts(module):
        return "it does not say how its experts compute, as modules of transformers 5 do (use_experts_implementation)"
    for name in names(module):
        weight = getattr(module, name, None)
        if not isinstance(weight, torch.Tensor) or weight.dim() != 3 or weight.shape[0] != module.num_experts:
            return f"its {name} is no tensor of [experts, rows, columns]"
        if weight.shape[1] * weight.shape[2] % blocksize:
            return f"an expert of {name} has {weight.shape[1] * weight.shape[2]} elements, no multiple of {blocksize}"
    return None


def may_nest(shape: Sequence[int], blocksize: int) -> bool:
    """Whether each expert begins with a block of quantized scales."""
    return shape[0] == 1 or math.prod(shape[1:]) % (blocksize * four_bit.SCALES_A_BLOCK) == 0


def upright(weight: Tensor, transposed: bool) -> Tensor:
    """[experts, rows, columns] of a weight that lies so, or the other way round; and back."""
    return weight.transpose(1, 2).contiguous() if transposed else weight


def separate(state: QuantState) -> QuantState:
    """A state by which each expert's scales can be read alone."""
    shape = state.shape or ()
    if state.state2 is None or may_nest(shape, state.blocksize or 1):
        return state
    plain = state.copy()
    plain.absmax, plain.offset, plain.state2 = _four_bit.scales(state), None, None
    return plain


class Held4bit(torch.nn.Module):
    """A module whose parameters of these `names` are in 4 bits; each has its state with it."""

    names: tuple[str, ...]

    def _state(self, name: str) -> QuantState:
        weight = getattr(self, name)
        state: QuantState | None = getattr(weight, "quant_state", None)
        if state is None:
            raise InvalidArgument(
                f"{type(self).__name__}: its {name} of shape {tuple(weight.shape)} is not quantized yet: move the "
                "module to the device where it is to run, experts.to(device); on the CPU experts.to('cpu')"
            )
        return state

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        """torch moves a parameter's tensor alone; the state follows it."""
        result = super()._apply(fn, recurse)
        for name in self.names:
            weight = getattr(self, name)
            state = getattr(weight, "quant_state", None)
            if state is not None:
                weight.quant_state = following(weight, state)
        return result

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name in self.names:
            weight = getattr(self, name)
            state = getattr(weight, "quant_state", None)
            if not keep_vars:
                destination[f"{prefix}{name}"] = weight.data  # a plain tensor, which every loader may unpickle
            for part, value in (state.as_dict(packed=True) if state else {}).items():
                destination[f"{prefix}{name}.{part}"] = value if keep_vars else value.detach()

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
        assign, done = bool(local_metadata.get("assign_to_params_buffers", False)), set()
        for name in self.names:
            key = f"{prefix}{name}"
            parts = {part: state_dict[f"{key}.{part}"] for part in PARTS if f"{key}.{part}" in state_dict}
            if not isinstance(state_dict.get(key), torch.Tensor):
                continue
            done |= {key, *(f"{key}.{part}" for part in parts)}
            try:
                self._take(name, state_dict[key], parts, assign)
            except InvalidArgument as error:
                error_msgs.append(f"{key}: {error}")
        rest = {name: value for name, value in state_dict.items() if name not in done}
        missing: list[str] = []
        super()._load_from_state_dict(rest, prefix, local_metadata, strict, missing, unexpected_keys, error_msgs)
        missing_keys += [name for name in missing if name not in done]

    def _take(self, name: str, weight: Tensor, parts: dict[str, Tensor], assign: bool) -> None:
        """Makes a weight of a checkpoint, codes with their state or a wide one, this module's."""
        old = getattr(self, name)
        shape = tuple(old.quant_state.shape if old.quant_state else old.shape)
        device = weight.device if assign or old.is_meta else old.device
        weight = held(weight, assign)
        if parts:
            state = {part: held(value, assign) for part, value in parts.items()}
            made = self.from_parts(weight, state, device)
            found = tuple(made.quant_state.shape or ()) if made.quant_state else ()
        else:
            found = tuple(weight.shape)
            made = old._with(weight.to(device), quant_state=None, bnb_quantized=False)  # noqa: SLF001
        if found != shape:
            raise InvalidArgument(f"is of shape {found} in the checkpoint, but {shape} in the module")
        setattr(self, name, made._quantize(device) if not parts and old.quant_state else made)  # noqa: SLF001

    @staticmethod
    def from_parts(weight: Tensor, parts: dict[str, Tensor], device: Any) -> Params4bit:
        """Of codes and the parts of their state, as a checkpoint holds them."""
        made = Params4bit.from_prequantized(weight, parts, device=device)
        made.quant_state = separate(made.quant_state)  # type: ignore[arg-type]
        return made
