// SPDX-License-Identifier: MIT
// Attention, by warps: of any strides, on any GPU with products of bfloat16.
#include "ops/attention/device/forward.cuh"

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
