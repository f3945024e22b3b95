// SPDX-License-Identifier: MIT
// 4-bit codes and the scales of their blocks into numbers: one run of units of 16 bytes of the result.
#include "ops/four_bit/device/dequantize_4bit.cuh"

// The names are the launcher's: dequantize_4bit_<type>.
#define KW_KERNEL(type, T)                                             \
  extern "C" __global__ void __launch_bounds__(kw::kDequantizeThreads) \
      dequantize_4bit_##type(const KwDequantize4bitParams p) {         \
    kw::dequantize_4bit<kw::T>(p);                                     \
  }

KW_KERNEL(float32, Float32)
KW_KERNEL(float16, Float16)
KW_KERNEL(bfloat16, BFloat16)
