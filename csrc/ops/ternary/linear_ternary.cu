// SPDX-License-Identifier: MIT
// A linear layer of a ternary weight, of few rows: norm, quantization, product and residual in one launch.
#include "ops/ternary/device/linear.cuh"

#if defined(KW_HAS_INT8_MMA) && defined(KW_HAS_CP_ASYNC)

#define LINEAR_TERNARY(rows, type, T)                                           \
  extern "C" __global__ void __launch_bounds__(KW_TERNARY_FEW_WARPS * 32, 1)    \
      linear_ternary_##rows##_##type(const KwLinearTernaryParams p) {           \
    kw::TernaryFew<rows / 8, kw::TernaryFloatRows<kw::T>>(p.few, {p, 0}).run(); \
  }
LINEAR_TERNARY(8, float16, Float16)
LINEAR_TERNARY(8, bfloat16, BFloat16)
LINEAR_TERNARY(16, float32, Float32)  // of fewer rows too
LINEAR_TERNARY(16, float16, Float16)
LINEAR_TERNARY(16, bfloat16, BFloat16)

#endif
