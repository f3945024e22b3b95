# SPDX-License-Identifier: MIT
"""Who else has this operator. Each public function imports one peer and gives its calls by overload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Call = Callable[[], Any]


def _rowwise(fast: bool) -> dict[str, Callable[..., Call]]:
    import torch

    from kernelwright.ops.linear._reference import activated

    product = torch._scaled_mm  # noqa: SLF001 - it has no public name

    def default(x: Any, weight: Any, x_scale: Any, weight_scale: Any, bias: Any, activation: str, dtype: Any) -> Call:
        of_x, of_weight = x_scale.unsqueeze(1), weight_scale.unsqueeze(0)

        def call() -> Any:
            y = product(x, weight.t(), scale_a=of_x, scale_b=of_weight, bias=bias, out_dtype=dtype, use_fast_accum=fast)
            return activated(y, activation)

        return call

    return {"default": default}


def scaled_mm() -> dict[str, Callable[..., Call]]:
    """torch._scaled_mm by rows and columns, its sums added to float32 as they are here."""
    return _rowwise(fast=False)


def scaled_mm_fast() -> dict[str, Callable[..., Call]]:
    """The same with use_fast_accum: all sums are the tensor cores'."""
    return _rowwise(fast=True)
