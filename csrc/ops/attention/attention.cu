// SPDX-License-Identifier: MIT
// Attention, by warps: of any strides, on any GPU with products of bfloat16.
#include "ops/attention/device/forward.cuh"
#include "ops/attention/device/forward_tma.cuh"

#ifdef KW_HAS_BF16_MMA

#define ATTENTION_KERNEL(name, T, d)                                                                               \
  extern "C" __global__ void __launch_bounds__(KW_ATTENTION_THREADS) attention_##name(const KwAttentionParams p) { \
    kw::Attend<kw::T, d>(p).run();                                                                                 \
  }
ATTENTION_KERNEL(small_float16, Float16, KW_ATTENTION_SMALL)
ATTENTION_KERNEL(small_bfloat16, BFloat16, KW_ATTENTION_SMALL)
ATTENTION_KERNEL(middle_float16, Float16, KW_ATTENTION_MIDDLE)
ATTENTION_KERNEL(middle_bfloat16, BFloat16, KW_ATTENTION_MIDDLE)
ATTENTION_KERNEL(large_float16, Float16, KW_ATTENTION_LARGE)
ATTENTION_KERNEL(large_bfloat16, BFloat16, KW_ATTENTION_LARGE)

#endif

#ifdef KW_HAS_WGMMA

#define ATTENTION_TMA_KERNEL(name, T, d, d_v)                                \
  extern "C" __global__ void __launch_bounds__(KW_ATTENTION_TMA_THREADS, 1)  \
      attention_tma_##name(const __grid_constant__ KwAttentionTmaParams p) { \
    kw::AttendTma<kw::T, d, d_v>(p).run();                                   \
  }
ATTENTION_TMA_KERNEL(64_float16, Float16, 64, 64)
ATTENTION_TMA_KERNEL(64_bfloat16, BFloat16, 64, 64)
ATTENTION_TMA_KERNEL(128_float16, Float16, 128, 128)
ATTENTION_TMA_KERNEL(128_bfloat16, BFloat16, 128, 128)
ATTENTION_TMA_KERNEL(256_float16, Float16, 256, 256)
ATTENTION_TMA_KERNEL(256_bfloat16, BFloat16, 256, 256)

#endif
