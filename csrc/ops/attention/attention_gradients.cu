// SPDX-License-Identifier: MIT
// Derivatives of attention by warpgroups, and what comes before those by warps, which are among attention_tiles.
#include "ops/attention/device/deltas.cuh"
#include "ops/attention/device/derive_tma.cuh"
#include "ops/attention/device/derive_wide.cuh"

#ifdef KW_HAS_BF16_MMA

#define ATTENTION_DELTAS_KERNEL(name, T)                                    \
  extern "C" __global__ void __launch_bounds__(KW_ATTENTION_THREADS)        \
      attention_backward_deltas_##name(const KwAttentionBackwardParams p) { \
    kw::attention_deltas<kw::T>(p);                                         \
  }
ATTENTION_DELTAS_KERNEL(float16, Float16)
ATTENTION_DELTAS_KERNEL(bfloat16, BFloat16)

#endif

#ifdef KW_HAS_WGMMA

#define ATTENTION_DERIVE_KERNELS(name, T, Derive, d)                                     \
  extern "C" __global__ void __launch_bounds__(KW_ATTENTION_PREPARE_THREADS)             \
      attention_backward_prepare_##name(const KwAttentionDeriveParams p) {               \
    kw::attention_prepare<kw::T, d>(p);                                                  \
  }                                                                                      \
  extern "C" __global__ void __launch_bounds__(KW_ATTENTION_DERIVE_THREADS, 1)           \
      attention_backward_tma_##name(const __grid_constant__ KwAttentionDeriveParams p) { \
    kw::Derive<kw::T, d>(p).run();                                                       \
  }                                                                                      \
  extern "C" __global__ void __launch_bounds__(KW_ATTENTION_COLLECT_THREADS)             \
      attention_backward_collect_##name(const KwAttentionDeriveParams p) {               \
    kw::attention_collect<kw::T, d>(p);                                                  \
  }
ATTENTION_DERIVE_KERNELS(64_float16, Float16, DeriveTma, KW_ATTENTION_SMALL)
ATTENTION_DERIVE_KERNELS(64_bfloat16, BFloat16, DeriveTma, KW_ATTENTION_SMALL)
ATTENTION_DERIVE_KERNELS(128_float16, Float16, DeriveTma, KW_ATTENTION_MIDDLE)
ATTENTION_DERIVE_KERNELS(128_bfloat16, BFloat16, DeriveTma, KW_ATTENTION_MIDDLE)
ATTENTION_DERIVE_KERNELS(256_float16, Float16, DeriveWide, KW_ATTENTION_LARGE)
ATTENTION_DERIVE_KERNELS(256_bfloat16, BFloat16, DeriveWide, KW_ATTENTION_LARGE)

#endif
