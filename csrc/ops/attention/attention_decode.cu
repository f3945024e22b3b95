// SPDX-License-Identifier: MIT
// Attention of few queries with a cache of keys and values, and the sum of what splits of the keys found.
#include "ops/attention/device/decode.cuh"

#ifdef KW_HAS_BF16_MMA

#define DECODE_KERNEL(name, T, d)                                       \
  extern "C" __global__ void __launch_bounds__(KW_DECODE_WARPS(d) * 32) \
      attention_decode_##name(const KwDecodeParams p) {                 \
    kw::wait_for_previous_kernel();                                     \
    kw::allow_next_kernel();                                            \
    kw::Decode<kw::T, d>(p).run();                                      \
  }
DECODE_KERNEL(small_float16, Float16, KW_ATTENTION_SMALL)
DECODE_KERNEL(small_bfloat16, BFloat16, KW_ATTENTION_SMALL)
DECODE_KERNEL(middle_float16, Float16, KW_ATTENTION_MIDDLE)
DECODE_KERNEL(middle_bfloat16, BFloat16, KW_ATTENTION_MIDDLE)
DECODE_KERNEL(large_float16, Float16, KW_ATTENTION_LARGE)
DECODE_KERNEL(large_bfloat16, BFloat16, KW_ATTENTION_LARGE)

#define MERGE_KERNEL(name, T)                                           \
  extern "C" __global__ void __launch_bounds__(KW_DECODE_MERGE_THREADS) \
      attention_decode_merge_##name(const KwDecodeParams p) {           \
    kw::DecodeMerge<kw::T>(p).run();                                    \
  }
MERGE_KERNEL(float16, Float16)
MERGE_KERNEL(bfloat16, BFloat16)

#endif
