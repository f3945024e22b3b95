// SPDX-License-Identifier: MIT
// Ternary weights: codes and scales of them, and what codes stand for.
#include "ops/ternary/device/codes.cuh"

extern "C" __global__ void __launch_bounds__(256) quantize_ternary_scale(const KwTernaryCodesParams p) {
  kw::ternary_one_scale(p);
}

#define TERNARY_KERNELS(name, T)                                                                                 \
  extern "C" __global__ void __launch_bounds__(256) quantize_ternary_sums_##name(const KwTernaryCodesParams p) { \
    kw::ternary_row_sums<kw::T>(p);                                                                              \
  }                                                                                                              \
  extern "C" __global__ void __launch_bounds__(256) quantize_ternary_pack_##name(const KwTernaryCodesParams p) { \
    kw::ternary_pack<kw::T>(p);                                                                                  \
  }                                                                                                              \
  extern "C" __global__ void __launch_bounds__(256) dequantize_ternary_##name(const KwTernaryCodesParams p) {    \
    kw::ternary_unpack<kw::T>(p);                                                                                \
  }
TERNARY_KERNELS(float32, Float32)
TERNARY_KERNELS(float16, Float16)
TERNARY_KERNELS(bfloat16, BFloat16)
