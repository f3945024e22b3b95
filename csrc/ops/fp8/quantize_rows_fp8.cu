// SPDX-License-Identifier: MIT
// Rows into 8-bit floats with a scale a row.
#include "ops/fp8/device/quantize_rows.cuh"

// The names are the launcher's: quantize_rows_fp8_<how much a thread has>_<type>.
#define KW_KERNEL(name, T, units)                                                                                \
  extern "C" __global__ void __launch_bounds__(1024) quantize_rows_fp8_##name(const KwQuantizeRowsFp8Params p) { \
    kw::quantize_rows_fp8<kw::T, units>(p);                                                                      \
  }
#define KW_KERNELS(type, T)   \
  KW_KERNEL(few_##type, T, 1) \
  KW_KERNEL(block_##type, T, KW_QUANTIZE_ROWS_UNITS)

KW_KERNELS(float32, Float32)
KW_KERNELS(float16, Float16)
KW_KERNELS(bfloat16, BFloat16)
