// SPDX-License-Identifier: MIT
// Attention and its derivatives by warps, of any strides, on any GPU with products of bfloat16; and by warpgroups.
#include "ops/attention/device/backward.cuh"
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

#define ATTENTION_BACKWARD_KERNELS(name, T, d)                               \
  extern "C" __global__ void __launch_bounds__(KW_ATTENTION_THREADS)         \
      attention_backward_queries_##name(const KwAttentionBackwardParams p) { \
    kw::BackwardQueries<kw::T, d>(p).run();                                  \
  }                                                                          \
  extern "C" __global__ void __launch_bounds__(KW_ATTENTION_THREADS)         \
      attention_backward_keys_##name(const KwAttentionBackwardParams p) {    \
    kw::BackwardKeys<kw::T, d>(p).run();                                     \
  }
ATTENTION_BACKWARD_KERNELS(small_float16, Float16, KW_ATTENTION_SMALL)
ATTENTION_BACKWARD_KERNELS(small_bfloat16, BFloat16, KW_ATTENTION_SMALL)
ATTENTION_BACKWARD_KERNELS(middle_float16, Float16, KW_ATTENTION_MIDDLE)
ATTENTION_BACKWARD_KERNELS(middle_bfloat16, BFloat16, KW_ATTENTION_MIDDLE)
ATTENTION_BACKWARD_KERNELS(large_float16, Float16, KW_ATTENTION_LARGE)
ATTENTION_BACKWARD_KERNELS(large_bfloat16, BFloat16, KW_ATTENTION_LARGE)

#define ATTENTION_DELTA_KERNEL(name, T)                                    \
  extern "C" __global__ void __launch_bounds__(KW_ATTENTION_THREADS)       \
      attention_backward_delta_##name(const KwAttentionBackwardParams p) { \
    kw::attention_delta<kw::T>(p);                                         \
  }
ATTENTION_DELTA_KERNEL(float16, Float16)
ATTENTION_DELTA_KERNEL(bfloat16, BFloat16)

extern "C" __global__ void __launch_bounds__(KW_ATTENTION_THREADS)
    attention_backward_sinks(const KwAttentionBackwardParams p) {
  kw::attention_sinks(p);
}

#endif

#ifdef KW_HAS_WGMMA

#define ATTENTION_TMA_KERNEL(name, T, d, d_v)                                  \
  extern "C" __global__ void __launch_bounds__(KW_ATTENTION_TMA_THREADS(d), 1) \
      attention_tma_##name(const __grid_constant__ KwAttentionTmaParams p) {   \
    kw::AttendTma<kw::T, d, d_v>(p).run();                                     \
  }
ATTENTION_TMA_KERNEL(64_float16, Float16, 64, 64)
ATTENTION_TMA_KERNEL(64_bfloat16, BFloat16, 64, 64)
ATTENTION_TMA_KERNEL(128_float16, Float16, 128, 128)
ATTENTION_TMA_KERNEL(128_bfloat16, BFloat16, 128, 128)
ATTENTION_TMA_KERNEL(256_float16, Float16, 256, 256)
ATTENTION_TMA_KERNEL(256_bfloat16, BFloat16, 256, 256)

#endif
