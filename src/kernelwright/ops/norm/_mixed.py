# SPDX-License-Identifier: MIT
"""x in 16 bits beside a residual in float32, as layers give it within autocast: the sum stays in float32."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


def mixed(x: Any, residual: Any) -> bool:
    given, held = getattr(x, "dtype", None), getattr(residual, "dtype", None)
    if given is held or given is None or held is None:
        return False
    import torch

    return held is torch.float32 and given in (torch.float16, torch.bfloat16)


def in_float32(x: Tensor, residual: Tensor, parameters: tuple[Tensor | None, ...], norm: Callable[..., Any]) -> Any:
    """What `norm(x, residual, parameters)` gives in float32, with y rounded once to the type of x."""
    wide = tuple(p.float() if getattr(p, "dtype", None) is x.dtype else p for p in parameters)  # type: ignore[union-attr]
    found = norm(x.float(), residual, wide)
    if isinstance(found, tuple):
        return found[0].to(x.dtype), found[1]
    return found.to(x.dtype)
