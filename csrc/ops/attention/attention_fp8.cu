// SPDX-License-Identifier: MIT
// Attention of 8-bit floats: on any GPU, of any rows, by warps; and by warpgroups.
#include "ops/attention/device/forward_fp8.cuh"
#include "ops/attention/device/forward_fp8_any.cuh"

extern "C" __global__ void __launch_bounds__(KW_ATTENTION_FP8_WARPS * 32)
    attention_fp8_any(const KwAttentionFp8Params p) {
  kw::AttendFp8Any{p}.run();
}

#ifdef KW_HAS_WGMMA

#define ATTENTION_FP8_KERNEL(d)                                                  \
  extern "C" __global__ void __launch_bounds__(KW_ATTENTION_FP8_THREADS, 1)      \
      attention_fp8_tma_##d(const __grid_constant__ KwAttentionFp8TmaParams p) { \
    kw::AttendFp8<d>(p).run();                                                   \
  }
ATTENTION_FP8_KERNEL(64)
ATTENTION_FP8_KERNEL(128)

#endif
