# SPDX-License-Identifier: MIT
"""bitsandbytes.functional."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from kernelwright.compat._covered import refuse_others
from kernelwright.compat.bitsandbytes import _blockwise, _four_bit, _int8, _paging
from kernelwright.compat.bitsandbytes._blockwise import *  # noqa: F403 - each file's __all__ is this module's
from kernelwright.compat.bitsandbytes._four_bit import *  # noqa: F403
from kernelwright.compat.bitsandbytes._int8 import *  # noqa: F403
from kernelwright.compat.bitsandbytes._paging import *  # noqa: F403
from kernelwright.compat.bitsandbytes.cextension import lib
from kernelwright.optim.maps import create_dynamic_map, create_fp8_map, create_linear_map, create_normal_map

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor

C = 127.0
name2qmap: dict[str, Any] = {}

__all__ = [  # noqa: PLE0604 - the files' names are strings too
    *_blockwise.__all__,
    *_four_bit.__all__,
    *_int8.__all__,
    *_paging.__all__,
    "C",
    "create_dynamic_map",
    "create_fp8_map",
    "create_linear_map",
    "create_normal_map",
    "get_ptr",
    "has_avx512bf16",
    "is_on_gpu",
    "lib",
    "name2qmap",
]


def get_ptr(A: Tensor | None) -> ctypes.c_void_p | None:
    """The address of a tensor's memory, as `lib`'s functions take it."""
    return None if A is None else ctypes.c_void_p(A.data_ptr())


def is_on_gpu(tensors: Iterable[Tensor | None]) -> bool:
    """True where all lie on one device, paged ones aside; else a RuntimeError."""
    given = [t for t in tensors if t is not None and not getattr(t, "is_paged", False)]
    if len({(t.device.type, t.device.index) for t in given}) > 1:
        shown = [(tuple(t.shape), str(t.device)) for t in given]
        raise RuntimeError(f"is_on_gpu: all tensors must be on one device, but these are on several: {shown}")
    return True


def has_avx512bf16() -> bool:
    """Whether layers reorder their codes for this CPU: never here."""
    return False


_WHY = {
    "_convert_weight_packed_for_cpu": "codes are never reordered here",
    "_convert_weight_packed_for_cpu_inverse": "codes are never reordered here",
}
__getattr__ = refuse_others(__name__, __all__, "What is not there, and why: docs/bitsandbytes.md", _WHY)
