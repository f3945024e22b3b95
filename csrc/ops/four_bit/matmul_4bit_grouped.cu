// SPDX-License-Identifier: MIT
// Rows of x times the weights of experts, of 4-bit codes. Which of these kernels runs is the launcher's choice
// (csrc/ops/four_bit/host/matmul_4bit_grouped.cpp).
//
//   tile  float16 and bfloat16 on tensor cores, for up to 32 rows of one expert at once: k a multiple of 32
//   any   everything else
#include "ops/four_bit/device/matmul_grouped.cuh"
#include "ops/four_bit/matmul_tuning.h"

#define KW_ANY(name, T)                                                   \
  extern "C" __global__ void __launch_bounds__(kw::kAnyThreads)           \
      matmul_4bit_grouped_any_##name(const KwMatmul4bitGroupedParams p) { \
    kw::matmul_4bit_grouped_any<kw::T>(p);                                \
  }
#define KW_TILE(name, T)                                                   \
  extern "C" __global__ void __launch_bounds__(KW_TILE32_WARPS * 32, 1)    \
      matmul_4bit_grouped_tile_##name(const KwMatmul4bitGroupedParams p) { \
    kw::matmul_4bit_grouped_tile<kw::T, KW_GROUPED_COLS, 2>(p);            \
  }

KW_ANY(float32, Float32)
KW_ANY(float16, Float16)
KW_ANY(bfloat16, BFloat16)
#ifdef KW_HAS_BF16_MMA
KW_TILE(float16, Float16)
KW_TILE(bfloat16, BFloat16)
#endif
