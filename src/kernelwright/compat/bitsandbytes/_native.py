# SPDX-License-Identifier: MIT
"""The C functions of bitsandbytes' library that programs call by ctypes, on kernelwright's C ABI.

Arguments are addresses and numbers, as ctypes' types or Python's own. They lie on torch's current GPU; where torch has
no GPU, in the host's memory. Names end in the type of the floats, and for 4 bits in that of the codes.
"""

from __future__ import annotations

import ctypes
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from kernelwright import _library
from kernelwright.compat._covered import refuse_others
from kernelwright.errors import InvalidArgument
from kernelwright.integrations._bitsandbytes_kernels import type_of
from kernelwright.nn.quant_state import code_at

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_FLOATS = {"fp32": "FLOAT32", "fp16": "FLOAT16", "bf16": "BFLOAT16"}
_VALUES = 16


def _of(argument: Any) -> Any:
    """The number in one of ctypes' types; None is 0."""
    return getattr(argument, "value", argument) or 0


def _place(library: Any) -> int:
    return torch.cuda.current_device() if torch.cuda.is_available() else library.constants["KW_CPU"]


def _dequantize(
    dtype: str,
    kind: str,
    code: Any,
    A: Any,
    absmax: Any,
    out: Any,
    blocksize: Any,
    n: Any,
    stream: Any = None,
) -> None:
    """Floats of n codes: of a type of 4 bits, or of 8 with the map `code`."""
    library = _library.load()
    number, count, size = library.constants[f"KW_{_FLOATS[dtype]}"], _of(n), _of(blocksize)
    head = _place(library), _of(stream), _of(out), _of(A), _of(absmax)
    if kind:
        library.call(
            "kw_dequantize_4bit", *head, 0, 0, 0, 0, count, size, library.constants[f"KW_{kind.upper()}"], number
        )
    else:
        library.call("kw_dequantize_blockwise", *head, _of(code), count, size, number)


def _quantize(dtype: str, kind: str, code: Any, A: Any, absmax: Any, out: Any, blocksize: Any, n: Any) -> None:
    """Codes of n floats and their scales, on torch's current stream."""
    library = _library.load()
    number, count, size = library.constants[f"KW_{_FLOATS[dtype]}"], _of(n), _of(blocksize)
    stream = torch.cuda.current_stream().cuda_stream if torch.cuda.is_available() else 0
    head = _place(library), stream, _of(out), _of(absmax), _of(A)
    if kind:
        library.call("kw_quantize_4bit", *head, count, size, library.constants[f"KW_{kind.upper()}"], number)
    else:
        library.call("kw_quantize_blockwise", *head, _of(code), count, size, number)


def _kind_at(address: int) -> str:
    """Which type's 16 values lie there. Those of a QuantState are known; others are read, which waits for the GPU."""
    known = code_at(address)
    if known is not None:
        return type_of(known)
    if torch.cuda.is_available():
        raise InvalidArgument(
            "cgemm_4bit_inference_naive: the address of the type's values is not that of a QuantState's code; pass "
            "get_ptr(quant_state.code)"
        )
    return type_of(torch.tensor(ctypes.cast(address, ctypes.POINTER(ctypes.c_float))[:_VALUES], dtype=torch.float32))


def _product(
    dtype: str, m: Any, n: Any, k: Any, A: Any, B: Any, absmax: Any, datatype: Any, out: Any, lda: Any, ldb: Any,
    ldc: Any, blocksize: Any, stream: Any = None,
) -> None:  # fmt: skip
    """One row A of k elements times a weight B of m rows, whose type's 16 values are at `datatype`."""
    del lda, ldb, ldc  # rows of the weight follow each other without a gap, as in bitsandbytes
    if _of(n) != 1:
        raise InvalidArgument(f"cgemm_4bit_inference_naive: n is {_of(n)}, but must be 1: it multiplies one row")
    library = _library.load()
    number, rows, columns, size = library.constants[f"KW_{_FLOATS[dtype]}"], _of(m), _of(k), _of(blocksize)
    kind = library.constants[f"KW_{_kind_at(_of(datatype)).upper()}"]
    device, needed = _place(library), ctypes.c_int64()
    library.call("kw_matmul_4bit_workspace", device, 1, rows, columns, size, number, ctypes.addressof(needed))
    where = "cuda" if torch.cuda.is_available() else "cpu"
    scratch = torch.empty(needed.value, dtype=torch.uint8, device=where) if needed.value else None
    at = 0 if scratch is None else scratch.data_ptr()
    weight = _of(B), _of(absmax), 0, 0, 0, 0, 0
    of_x = _of(A), columns
    library.call(
        "kw_matmul_4bit", device, _of(stream), _of(out), rows, *of_x, *weight, at, needed.value, 1, rows, columns,
        size, kind, number,
    )  # fmt: skip


FUNCTIONS: Mapping[str, Callable[..., None]] = {
    f"c{verb}_blockwise_{dtype}{'_' * bool(kind)}{kind}": partial(function, dtype, kind)
    for verb, function in (("quantize", _quantize), ("dequantize", _dequantize))
    for dtype in _FLOATS
    for kind in ("", "nf4", "fp4")
} | {f"cgemm_4bit_inference_naive_{dtype}": partial(_product, dtype) for dtype in _FLOATS}

_WHY = {
    "cget_managed_ptr": "managed memory is never used; optimizers page by copies, see functional.get_paged",
    "cprefetch": "managed memory is never used; optimizers page by copies, see functional.get_paged",
    "get_context": "nothing here needs a handle of cuBLAS",
}


class Native:
    """`bitsandbytes.functional.lib`: the functions above by name."""

    compiled_with_cuda = True

    def __getattr__(self, name: str) -> Any:
        if name in FUNCTIONS:
            return FUNCTIONS[name]
        return refuse_others("bitsandbytes.functional.lib", tuple(FUNCTIONS), "Use the functions of Python", _WHY)(name)

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)
