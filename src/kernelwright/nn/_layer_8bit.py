# SPDX-License-Identifier: MIT
"""What layers with an 8-bit weight share: how it moves, how it is saved and loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kernelwright.errors import InvalidArgument
from kernelwright.nn.params_8bit import Int8Params

if TYPE_CHECKING:
    from torch import Tensor

_ROW = 0  # how bitsandbytes numbers the one order of codes that it still has


def _refuse_order(found: Any) -> str | None:
    """What is wrong with the `weight_format` of a checkpoint, if anything."""
    found = found.item() if isinstance(found, torch.Tensor) else found
    if found in (_ROW, "row"):
        return None
    return f"is {found!r}: codes of old versions of bitsandbytes in another order; load and save it with those"


class Layer8bit(torch.nn.Module):
    """Goes before the torch module whose `weight` is in 8 bits."""

    weight: Any

    def _scales(self) -> Tensor | None:
        """The weight's, wherever they are kept; None before it is quantized."""
        found: Tensor | None = getattr(self.weight, "SCB", None)
        return found

    def _keep(self, scales: Tensor | None) -> None:
        """The weight has moved: so do its scales. None: it has none."""
        weight = self.weight
        if getattr(weight, "SCB", None) is not None:
            weight.SCB = scales
            weight.CB = weight.data if weight.CB is not None else None

    def _forget(self) -> None:
        """What was kept of a weight that another takes the place of."""

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        """torch moves a parameter's tensor alone; the scales follow it."""
        result = super()._apply(fn, recurse)
        scales, weight = self._scales(), self.weight
        if scales is not None and weight.dtype is torch.int8:
            if scales.is_meta and not weight.is_meta:  # to_empty(): they are to be loaded too
                scales = torch.empty_like(scales, device=weight.device)
            self._keep(scales.to(weight.device))
        return result

    # --- state dicts --------------------------------------------------------------

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        scales = self._scales()
        if self.weight.dtype is not torch.int8 or scales is None:
            return
        if not keep_vars:
            destination[f"{prefix}weight"] = self.weight.data  # a plain tensor, which every loader may unpickle
        destination[f"{prefix}SCB"] = scales if keep_vars else scales.detach()
        destination[f"{prefix}weight_format"] = torch.tensor(_ROW, dtype=torch.uint8)

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
        key, ours = f"{prefix}weight", {f"{prefix}SCB", f"{prefix}weight_format"}
        weight, scales = state_dict.get(key), state_dict.get(f"{prefix}SCB")
        wrong = _refuse_order(state_dict.get(f"{prefix}weight_format", "row"))
        if wrong:
            error_msgs.append(f"{prefix}weight_format: {wrong}")
        taken = False
        if isinstance(weight, torch.Tensor):
            try:
                taken = self._take(weight, scales, bool(local_metadata.get("assign_to_params_buffers", False)))
            except InvalidArgument as error:
                error_msgs.append(f"{key}: {error}")
                taken = True  # said once is enough
        done = ours | ({key} if taken else set())
        rest = {name: value for name, value in state_dict.items() if name not in done}
        missing: list[str] = []
        super()._load_from_state_dict(rest, prefix, local_metadata, strict, missing, unexpected_keys, error_msgs)
        missing_keys += [name for name in missing if not (taken and name == key)]

    def _take(self, weight: Tensor, scales: Tensor | None, assign: bool) -> bool:
        """Makes the weight of a checkpoint this layer's. False: it is one that torch can load as any other."""
        old = self.weight
        held = isinstance(old, Int8Params) and old.has_fp16_weights
        if weight.dtype is not torch.int8 and (old.dtype is not torch.int8 or held):
            self._forget()
            return False
        if tuple(weight.shape) != tuple(old.shape):
            raise InvalidArgument(f"has shape {tuple(weight.shape)} in the checkpoint, but {tuple(old.shape)} here")
        device = weight.device if assign or old.is_meta else old.device
        if weight.dtype is not torch.int8:
            made = Int8Params(weight.detach().cpu(), requires_grad=False).to(device)
        elif scales is None:
            raise InvalidArgument("is in 8 bits in the checkpoint, but without its scales (SCB) beside it")
        elif scales.numel() != weight.shape[0]:
            raise InvalidArgument(f"has {scales.numel()} scales (SCB) in the checkpoint for {weight.shape[0]} rows")
        else:
            codes, scales = weight.detach().to(device), scales.detach().to(device, torch.float32).view(-1)
            if not assign:
                codes, scales = codes.clone(), scales.clone()
            made = Int8Params(codes, requires_grad=False, CB=codes, SCB=scales)
        self._forget()
        self.weight = made
        return True
