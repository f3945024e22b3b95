# SPDX-License-Identifier: MIT
"""What the C library's functions of tensors, kw_..._tensors, are given for one: a description of it in memory."""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NoReturn

from kernelwright.ops._tensors import dtype_codes

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from kernelwright._library import Library

DTYPES = ("float32", "float16", "bfloat16", "float64", "uint8", "int8", "int32", "float8_e4m3fn")
_MOST_TENSORS = 32  # of one call, and more


class _Kept(threading.local):
    """Descriptions of the tensors of a thread's last call, while that runs."""

    def __init__(self) -> None:
        self.last: deque[Any] = deque(maxlen=_MOST_TENSORS)


def describer(library: Library) -> Callable[[Tensor], int]:
    """A function of a tensor that describes it, and gives the address of that."""
    struct, kind, here = library.structs["kw_tensor"], library.constants["KW_TENSOR"], library.constants["KW_CPU"]
    code_of, kept = dtype_codes(library, DTYPES), _Kept()

    def describe(tensor: Tensor) -> int:
        dims = tensor.dim()
        sizes, strides = (ctypes.c_int64 * dims)(*tensor.shape), (ctypes.c_int64 * dims)(*tensor.stride())
        held = tensor.untyped_storage().nbytes() > 0  # a view of freed memory has an address that is its offset
        lies = tensor.data_ptr() if held else 0, ctypes.addressof(sizes), ctypes.addressof(strides), dims
        made = struct(kind, *lies, code_of.get(tensor.dtype, -1), tensor.get_device() if tensor.is_cuda else here)
        kept.last.append((made, sizes, strides))
        return ctypes.addressof(made)

    return describe


@cache
def handles(library: Library) -> Callable[[Tensor], int]:
    """A function of a tensor: what the library is given for it, good until the thread's next call."""
    return describer(library)


def caller(
    library: Library, function: str
) -> tuple[Callable[[bytes], int], Callable[..., bytes], Callable[[int], None]]:
    """(call, pack, refuse): `status = call(pack(*arguments))` is a call of `function`, and where that is not 0,
    `refuse(status)` raises, but not for arguments that do not fit: callers can make them, or put it better."""
    pack, address = library.packer(function)
    invalid = library.constants["KW_ERROR_INVALID_ARGUMENT"]

    def refuse(status: int) -> None:
        if status != invalid:
            library.fail(function, status)

    return library.functions["kw_call"], partial(pack, address), refuse


def refused(library: Library, function: str) -> NoReturn:
    """Raises what this thread's last call was refused for."""
    library.fail(function, library.constants["KW_ERROR_INVALID_ARGUMENT"])
