# SPDX-License-Identifier: MIT
"""Arguments of the C functions of the 4-bit operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


def scale_pointers(scales: Sequence[Tensor]) -> tuple[list[Tensor], tuple[int | None, ...]]:
    """absmax, codes, absmax2, map and offset as addresses; and the tensors to keep alive until the call is made."""
    kept = [tensor.contiguous() for tensor in scales]
    if len(kept) == 1:
        return kept, (kept[0].data_ptr(), None, None, None, None)
    return kept, (None, *[tensor.data_ptr() for tensor in kept])
