// SPDX-License-Identifier: MIT
// Rows into 8-bit integers with a scale a row, after their norm or without their outliers.
#include "ops/int8/device/quantize_rows.cuh"

// The names are the launcher's: quantize_rows_int8_<who has a row>_<type>.
#define KW_KERNEL(name, threads, ...)                                                                             \
  extern "C" __global__ void __launch_bounds__(threads) quantize_rows_int8_##name(const KwQuantizeRowsParams p) { \
    kw::__VA_ARGS__(p);                                                                                           \
  }
#define KW_KERNELS(type, T)                                                       \
  KW_KERNEL(warp_##type, KW_QUANTIZE_ROWS_THREADS, quantize_rows_by_warps<kw::T>) \
  KW_KERNEL(few_##type, 1024, quantize_rows_by_blocks<kw::T, 1>)                  \
  KW_KERNEL(block_##type, 1024, quantize_rows_by_blocks<kw::T, KW_QUANTIZE_ROWS_UNITS>)

KW_KERNELS(float32, Float32)
KW_KERNELS(float16, Float16)
KW_KERNELS(bfloat16, BFloat16)

KW_KERNEL(clear, KW_QUANTIZE_ROWS_THREADS, clear_outliers)
