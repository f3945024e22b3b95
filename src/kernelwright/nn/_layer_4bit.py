# SPDX-License-Identifier: MIT
"""What layers with a 4-bit weight share: where its state is, how it moves, how it is saved and loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kernelwright.errors import InvalidArgument
from kernelwright.nn import _fsdp
from kernelwright.nn.params_4bit import Params4bit
from kernelwright.nn.quant_state import PACKED, QuantState

if TYPE_CHECKING:
    from torch import Tensor

# The keys of a state dict that belong to a quantized weight, after "<layer>.weight.".
PARTS = ("absmax", "quant_map", "nested_absmax", "nested_quant_map", f"{PACKED}nf4", f"{PACKED}fp4")


def _beside(weight: Any, state: QuantState | None) -> QuantState | None:
    """The state on the device of a weight that came without one: FSDP and DataParallel move the tensor alone."""
    if (
        state is None
        or weight is None
        or weight.device == state.absmax.device
        or weight.is_meta
        or state.absmax.is_meta
    ):
        return state
    return state.copy().to(weight.device)


def held(value: Any, assign: bool) -> Any:
    """A part of a checkpoint as a layer may keep it: with a history of its own, and unless assigned its own memory."""
    if not isinstance(value, torch.Tensor):
        return value  # QuantState says what it should be
    return value.detach() if assign else value.detach().clone()


def following(weight: Any, state: QuantState) -> QuantState:
    """The state of a weight that torch has moved: where the weight is now."""
    device = weight.device
    if state.absmax.is_meta and not weight.is_meta:  # to_empty(): the state is to be loaded too
        return state.copy()._change(lambda t: torch.empty_like(t, device=device))  # noqa: SLF001
    return state.copy().to(device) if state.absmax.device != device else state


class Layer4bit(torch.nn.Module):
    """Goes before the torch module whose `weight` is in 4 bits.

    The state stands in the weight and, once more, here: FSDP replaces the weight by a plain tensor of its shards.
    """

    weight: Any
    quant_state: QuantState | None
    quant_storage: torch.dtype
    joined: Any = None
    """A nn._joined.Joined, where the weights of several layers lie together."""

    def _unpacked_shape(self) -> tuple[int, int]:
        raise NotImplementedError

    def _known_state(self) -> QuantState | None:
        return getattr(self.weight, "quant_state", None) or self.quant_state

    def _describe(self) -> str:
        weight = self.weight
        state = self._known_state()
        kind = getattr(weight, "quant_type", None) or (state and state.quant_type)
        double = state.nested if state else getattr(weight, "compress_statistics", False)
        return f"{kind}{', double-quantized' if double else ''}{'' if state else ', not quantized yet'}"

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in ("weight", "bias") and self.joined is not None:
            self.joined.drop()
        if name == "weight":
            state = getattr(value, "quant_state", None) or _beside(value, self.__dict__.get("quant_state"))
            super().__setattr__("quant_state", state)
            _fsdp.gather_bytes(value)

    def _state(self) -> QuantState:
        """The state of the weight as it is now, which must be quantized."""
        state = self._known_state()
        if state is None:
            raise InvalidArgument(
                f"{type(self).__name__}: its weight of shape {tuple(self.weight.shape)} is not quantized yet: move the "
                "layer to the device where it is to run, layer.to(device); on the CPU layer.to('cpu')"
            )
        return state

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        """torch moves a parameter's tensor alone; the state follows it."""
        result = super()._apply(fn, recurse)
        _fsdp.gather_bytes(self.weight)
        if self.joined is not None and not self.joined.has(self.weight):
            self.joined.drop()
        state = self._known_state()
        if state is not None:
            state = following(self.weight, state)
            if isinstance(self.weight, Params4bit):
                self.weight.quant_state = state
            self.quant_state = state
        return result

    # --- state dicts --------------------------------------------------------------

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if isinstance(self.weight, Params4bit) and not keep_vars:
            destination[f"{prefix}weight"] = self.weight.data  # a plain tensor, which every loader may unpickle
        state = self._known_state()
        if state is not None:
            parts = state.as_dict(packed=True)
            for name, value in parts.items():
                destination[f"{prefix}weight.{name}"] = value if keep_vars else value.detach()
            if not isinstance(self.weight, Params4bit):
                # torch.distributed.checkpoint looks each key up attribute by attribute; a sharded weight is a DTensor.
                vars(self.weight).update(parts, quant_state=state)

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
        key = f"{prefix}weight"
        parts = {name: state_dict[f"{key}.{name}"] for name in PARTS if f"{key}.{name}" in state_dict}
        taken = False
        if isinstance(state_dict.get(key), torch.Tensor):
            assign = bool(local_metadata.get("assign_to_params_buffers", False))
            try:
                taken = self._take(state_dict[key], parts, assign)
            except InvalidArgument as error:
                error_msgs.append(f"{key}: {error}")
                taken = True  # said once is enough
        # What is left is torch's to load, and to complain about.
        done = {f"{key}.{name}" for name in parts} | ({key} if taken else set())
        rest = {name: value for name, value in state_dict.items() if name not in done}
        missing: list[str] = []
        super()._load_from_state_dict(rest, prefix, local_metadata, strict, missing, unexpected_keys, error_msgs)
        missing_keys += [name for name in missing if not (taken and name == key)]

    def _take(self, weight: Tensor, parts: dict[str, Tensor], assign: bool) -> bool:
        """Makes the weight of a checkpoint this layer's. False: it is one that torch can load as any other."""
        old, state = self.weight, self._known_state()
        device = weight.device if assign or old.device.type == "meta" else old.device
        if hasattr(weight, "to_local"):  # a DTensor: torch copies each process its shard, all have the state
            if not hasattr(old, "to_local"):
                raise InvalidArgument(
                    "is sharded over processes (a DTensor) in the checkpoint, but not in the layer; load a whole one"
                )
            self.quant_state = self._checked(QuantState.from_dict(parts, device=old.device)) if parts else state
            return False
        if parts:
            weight, parts = held(weight, assign), {name: held(value, assign) for name, value in parts.items()}
            made = Params4bit.from_prequantized(weight, parts, device=device)
            self._checked(made.quant_state)
            self.quant_storage = made.quant_storage
        elif state and weight.is_meta:
            raise InvalidArgument("is on meta, without values, in the checkpoint")
        elif tuple(weight.shape) == self._unpacked_shape() and isinstance(old, Params4bit) and (state or assign):
            made = old._with(weight.detach(), quant_state=None, bnb_quantized=False)  # noqa: SLF001
            if state:
                made._quantize(device, None if assign else state.dtype)  # noqa: SLF001
        elif state:
            raise InvalidArgument(
                f"has shape {tuple(weight.shape)} in the checkpoint and no scales (weight.absmax) beside it, but must "
                f"have {self._unpacked_shape()}, or be packed codes with their scales"
            )
        else:
            return False
        made.module = self
        self.weight = made
        return True

    def _checked(self, state: Any) -> QuantState:
        if tuple(state.shape) != self._unpacked_shape():
            raise InvalidArgument(
                f"is of shape {tuple(state.shape)} in the checkpoint, but {self._unpacked_shape()} in the layer"
            )
        return state
