// SPDX-License-Identifier: MIT
// A linear layer with its activation: on any GPU; and by warpgroups, where blocks of a pair share columns.
#include "ops/linear/device/any.cuh"
#include "ops/linear/device/kernel.cuh"
#include "ops/linear/device/warps.cuh"

#define LINEAR_ANY_KERNEL(name, T)                                                                            \
  extern "C" __global__ void __launch_bounds__(KW_ANY_THREADS) linear_any_##name(const KwLinearAnyParams p) { \
    kw::LinearAny<kw::T, false>(p).run();                                                                     \
  }
LINEAR_ANY_KERNEL(float32, Float32)
LINEAR_ANY_KERNEL(float16, Float16)
LINEAR_ANY_KERNEL(bfloat16, BFloat16)

#if defined(KW_HAS_BF16_MMA) && defined(KW_HAS_CP_ASYNC) && !defined(KW_HAS_WGMMA)

#define WARPS_KERNEL(name, T)                                              \
  extern "C" __global__ void __launch_bounds__(KW_LINEAR_WARPS_THREADS, 1) \
      linear_warps_##name(const KwLinearAnyParams p) {                     \
    kw::LinearWarps<kw::T, false>(p).run();                                \
  }
WARPS_KERNEL(float16, Float16)
WARPS_KERNEL(bfloat16, BFloat16)

#endif

#ifdef KW_HAS_WGMMA

#define LINEAR_KERNEL(name, T, cluster)                              \
  extern "C" __global__ void __launch_bounds__(KW_LINEAR_THREADS, 1) \
      linear_##name(const __grid_constant__ KwLinearParams p) {      \
    kw::Linear<kw::T, cluster, false>(p).run();                      \
  }
LINEAR_KERNEL(single_float16, Float16, 1)
LINEAR_KERNEL(single_bfloat16, BFloat16, 1)
LINEAR_KERNEL(pair_float16, Float16, 2)
LINEAR_KERNEL(pair_bfloat16, BFloat16, 2)

#endif
