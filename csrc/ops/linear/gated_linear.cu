// SPDX-License-Identifier: MIT
// The same as linear.cu of gated layers: a tile has columns of the gate, and those that they are multiplied with.
#include "ops/linear/device/any.cuh"
#include "ops/linear/device/kernel.cuh"
#include "ops/linear/device/warps.cuh"

#define GATED_ANY_KERNEL(name, T)                                                                                   \
  extern "C" __global__ void __launch_bounds__(KW_ANY_THREADS) gated_linear_any_##name(const KwLinearAnyParams p) { \
    kw::LinearAny<kw::T, true>(p).run();                                                                            \
  }
GATED_ANY_KERNEL(float32, Float32)
GATED_ANY_KERNEL(float16, Float16)
GATED_ANY_KERNEL(bfloat16, BFloat16)

#if defined(KW_HAS_BF16_MMA) && defined(KW_HAS_CP_ASYNC) && !defined(KW_HAS_WGMMA)

#define WARPS_KERNEL(name, T)                                              \
  extern "C" __global__ void __launch_bounds__(KW_LINEAR_WARPS_THREADS, 1) \
      gated_linear_warps_##name(const KwLinearAnyParams p) {               \
    kw::LinearWarps<kw::T, true>(p).run();                                 \
  }
WARPS_KERNEL(float16, Float16)
WARPS_KERNEL(bfloat16, BFloat16)

#endif

#ifdef KW_HAS_WGMMA

#define GATED_KERNEL(name, T, cluster)                                \
  extern "C" __global__ void __launch_bounds__(KW_LINEAR_THREADS, 1)  \
      gated_linear_##name(const __grid_constant__ KwLinearParams p) { \
    kw::Linear<kw::T, cluster, true>(p).run();                        \
  }
GATED_KERNEL(single_float16, Float16, 1)
GATED_KERNEL(single_bfloat16, BFloat16, 1)
GATED_KERNEL(pair_float16, Float16, 2)
GATED_KERNEL(pair_bfloat16, BFloat16, 2)

#endif
