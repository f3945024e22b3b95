# SPDX-License-Identifier: MIT
"""torch.ops.bitsandbytes where no bitsandbytes is installed: its operators' schemas on kernelwright's kernels.

Programs call these by name, and torch.compile and torch.export keep them in graphs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kernelwright.integrations import _bitsandbytes_8bit, _bitsandbytes_int8, _bitsandbytes_kernels

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

SCHEMAS = {
    "int8_mixed_scaled_mm": "(Tensor A, Tensor CA, Tensor CB, Tensor SCA, Tensor SCB, Tensor? outlier_cols=None, "
    "Tensor? bias=None) -> (Tensor, Tensor?)",
    "int8_scaled_mm": "(Tensor A, Tensor B, Tensor row_stats, Tensor col_stats, Tensor? bias=None, "
    "ScalarType? dtype=None) -> Tensor",
    "int8_linear_matmul": "(Tensor A, Tensor B) -> Tensor",
    "int8_linear_matmul.out": "(Tensor A, Tensor B, Tensor! out) -> ()",
    "int8_vectorwise_quant": "(Tensor A, float threshold=0.0) -> (Tensor, Tensor, Tensor?)",
    "int8_vectorwise_dequant": "(Tensor A, Tensor stats) -> Tensor",
    "int8_mm_dequant": "(Tensor A, Tensor row_stats, Tensor col_stats, ScalarType? dtype=None, Tensor? bias=None) "
    "-> Tensor",
    "int8_double_quant": "(Tensor A, float threshold=0.0) -> (Tensor, Tensor, Tensor, Tensor, Tensor?)",
    "dequantize_4bit": "(Tensor A, Tensor absmax, int blocksize, str quant_type, int[] shape, ScalarType dtype) "
    "-> Tensor",
    "dequantize_4bit.out": "(Tensor A, Tensor absmax, int blocksize, str quant_type, int[] shape, ScalarType dtype, "
    "Tensor! out) -> ()",
    "quantize_4bit": "(Tensor A, int blocksize, str quant_type, ScalarType quant_storage) -> (Tensor, Tensor)",
    "gemm_4bit": "(Tensor A, Tensor B, int[] shapeB, Tensor absmax, int blocksize, str quant_type, "
    "Tensor? bias=None, Tensor? absmax_8bit=None, Tensor? absmax_code=None, Tensor? absmax_offset=None) -> Tensor",
    "gemv_4bit": "(Tensor A, Tensor B, int[] shapeB, Tensor absmax, Tensor code, int blocksize) -> Tensor",
    "gemv_4bit.out": "(Tensor A, Tensor B, int[] shapeB, Tensor absmax, Tensor code, int blocksize, Tensor! out) -> ()",
    "dequantize_blockwise": "(Tensor A, Tensor absmax, Tensor code, int blocksize, ScalarType dtype) -> Tensor",
    "dequantize_blockwise.out": "(Tensor A, Tensor absmax, Tensor code, int blocksize, ScalarType dtype, "
    "Tensor! out) -> ()",
    "quantize_blockwise": "(Tensor A, Tensor code, int blocksize) -> (Tensor, Tensor)",
    "optimizer_update_32bit": "(str optimizer_name, Tensor(a0!) g, Tensor(a1!) p, Tensor(a2!) state1, "
    "Tensor(a3!)? state2, Tensor(a4!)? unorm_vec, float max_unorm, float param_norm, float beta1, float beta2, "
    "float beta3, float alpha, float eps, float weight_decay, int step, float lr, float gnorm_scale, "
    "bool skip_zeros=False) -> ()",
    "optimizer_update_8bit_blockwise": "(str optimizer_name, Tensor(a0!) g, Tensor(a1!) p, Tensor(a2!) state1, "
    "Tensor(a3!)? state2, float beta1, float beta2, float beta3, float alpha, float eps, int step, float lr, "
    "Tensor(a4!) qmap1, Tensor(a5!)? qmap2, Tensor(a6!) absmax1, Tensor(a7!)? absmax2, float weight_decay, "
    "float gnorm_scale, bool skip_zeros=False) -> ()",
}
KERNELS: dict[str, Callable[..., Any]] = {
    **_bitsandbytes_kernels.KERNELS,
    **_bitsandbytes_8bit.KERNELS,
    **_bitsandbytes_int8.KERNELS,
}
_KEYS = ("CPU", "CUDA")


def _blocks(count: int, size: int) -> int:
    return -(-count // size)


def _columns(like: Tensor, dtype: torch.dtype) -> Tensor:
    """How many columns have outliers is known when there are values."""
    return like.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=dtype)


def _rows_of(codes: Tensor, b: Tensor, dtype: Any) -> Tensor:
    return codes.new_empty((*codes.shape[:-1], b.shape[0]), dtype=dtype)


def _quantized_rows(x: Tensor, threshold: float = 0.0) -> tuple[Tensor, Tensor, Tensor | None]:
    codes, scales = torch.empty_like(x, dtype=torch.int8), x.new_empty(x.numel() // x.shape[-1], dtype=torch.float32)
    return codes, scales, _columns(x, torch.int64) if threshold else None


def _double(x: Tensor, threshold: float = 0.0) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
    codes, scales, columns = _quantized_rows(x, threshold)
    return codes, torch.empty_like(codes), scales, x.new_empty(x.shape[-1], dtype=torch.float32), columns


def _quantized_4bit(x: Tensor, blocksize: int, quant_type: str, quant_storage: Any) -> tuple[Tensor, Tensor]:
    del quant_type
    size = _blocks(x.numel(), 2) // quant_storage.itemsize
    absmax = x.new_empty(_blocks(x.numel(), blocksize), dtype=torch.float32)
    return x.new_empty((size, 1), dtype=quant_storage), absmax


def _quantized_blocks(x: Tensor, code: Tensor, blocksize: int) -> tuple[Tensor, Tensor]:
    del code
    absmax = x.new_empty(_blocks(x.numel(), blocksize), dtype=torch.float32)
    return torch.empty_like(x, dtype=torch.uint8), absmax


def _mixed(x: Tensor, codes: Tensor, b: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
    return _rows_of(codes, b, x.dtype), _columns(x, x.dtype)


def _wide_4bit(x: Tensor, absmax: Tensor, blocksize: int, quant_type: str, shape: Sequence[int], dtype: Any) -> Tensor:
    del absmax, blocksize, quant_type
    return x.new_empty(shape, dtype=dtype)


def _product(x: Tensor, packed: Tensor, shape: Sequence[int], *_: Any, **__: Any) -> Tensor:
    del packed
    return x.new_empty((*x.shape[:-1], shape[0]))


def _nothing(*_: Any, **__: Any) -> None:
    return None


FAKES: dict[str, Callable[..., Any]] = {
    "int8_mixed_scaled_mm": _mixed,
    "int8_scaled_mm": lambda a, b, r, c, bias=None, dtype=None: _rows_of(a, b, dtype or torch.float16),
    "int8_linear_matmul": lambda a, b: _rows_of(a, b, torch.int32),
    "int8_vectorwise_quant": _quantized_rows,
    "int8_vectorwise_dequant": lambda a, stats: torch.empty_like(a, dtype=torch.float32),
    "int8_mm_dequant": lambda a, r, c, dtype=None, bias=None: torch.empty_like(a, dtype=dtype or torch.float16),
    "int8_double_quant": _double,
    "dequantize_4bit": _wide_4bit,
    "quantize_4bit": _quantized_4bit,
    "gemm_4bit": _product,
    "gemv_4bit": _product,
    "dequantize_blockwise": lambda a, absmax, code, blocksize, dtype: torch.empty_like(a, dtype=dtype),
    "quantize_blockwise": _quantized_blocks,
}


def define() -> Any:
    """Defines them, for as long as what it returns is held; `_destroy()` of that takes them away."""
    library = torch.library.Library("bitsandbytes", "DEF")
    for name, schema in SCHEMAS.items():
        library.define(name + schema)
    for name, kernel in KERNELS.items():
        for key in _KEYS:
            library.impl(name, kernel, key)
        torch.library.register_fake(f"bitsandbytes::{name}", FAKES.get(name, _nothing), lib=library)
    return library
