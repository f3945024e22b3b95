# SPDX-License-Identifier: MIT
"""What layers have together whose weights lie one behind the other in memory, whatever the weights are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch import Tensor

as_it_is = torch._C.DisableTorchFunctionSubclass  # noqa: SLF001 - it has no public name
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class Memory:
    """Each layer has it as `joined`, and drops it when its weight becomes another."""

    bias: Any = None
    ends_with_norm = False
    """Of q, k and v: whether the attention's own pass gives its last norm to o_proj and to nothing else."""

    def __init__(self, sizes: Sequence[int], weight: Any) -> None:
        self.sizes, self.weight = list(sizes), weight

    def drop(self) -> None:
        """Lets go of the memory; the layers are products of their own again."""
        self.weight = self.bias = None

    def has(self, weight: Tensor) -> bool:
        """Whether it lies in this memory, or there is none any more."""
        with as_it_is():
            return self.weight is None or (
                weight.device == self.weight[0].device
                and weight.untyped_storage().data_ptr() == self.weight[0].untyped_storage().data_ptr()
            )

    def __reduce__(self) -> tuple[Any, ...]:
        """None in a copy: torch gives each parameter of it memory of its own."""
        return _nothing, ()


def _nothing() -> None:
    return None


def starts(sizes: Sequence[int]) -> list[int]:
    return [sum(sizes[:place]) for place in range(len(sizes))]


def has_hooks(module: Any) -> bool:
    own = module.__dict__
    return any(own[name] for name in _HOOKS)


def hooked(layer: Any) -> bool:
    """Whether calling it does more than its class says."""
    return "forward" in layer.__dict__ or has_hooks(layer)


def first_reason(layers: Sequence[Any], reasons: Mapping[str, Callable[[Any], Any]]) -> str | None:
    """The first that applies to one of the layers."""
    return next((reason for reason, applies in reasons.items() if any(applies(layer) for layer in layers)), None)
