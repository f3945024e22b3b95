// SPDX-License-Identifier: MIT
// The kernels of a norm's derivatives. Their names are the launcher's (csrc/ops/norm/host/backward_launch.h), which
// also chooses among them:
//
//   op_backward_type           rows on 16 bytes
//   op_backward_phased_type    rows that begin alike in all tensors, of bfloat16
//   op_backward_phased_wide_type, op_backward_wide_type
//                              a cluster's of these and of the first, with weights of their type or none, by fewer
//                              threads
//   op_backward_late_type      a cluster's rows, whose derivatives follow two rows after their sums
//   op_backward_dense_type     narrow rows without gaps that begin on 8 bytes
//   op_backward_shifted_type   rows that lie anyhow
//   op_backward_few_type       few rows, in two kernels of which the second begins before the first has ended
//   op_backward_columns_type   the second
//   op_backward_finish         the sums over rows
#pragma once

#include "ops/norm/device/backward_columns.cuh"
#include "ops/norm/device/backward_dense.cuh"
#include "ops/norm/device/backward_few.cuh"
#include "ops/norm/device/backward_rows.cuh"

#define KW_BACKWARD(op, name, threads, ...)                                                                     \
  extern "C" __global__ void __launch_bounds__(threads, 1) op##_backward_##name(const KwNormBackwardParams p) { \
    kw::norm_backward<__VA_ARGS__>(p);                                                                          \
  }

// Measured only where wgmma is. Phased and wide are bfloat16's rows alone: every further kernel makes the wheel 8 to 15
// KB larger. RMSNorm gains less by wide ones and has none that lie on 16 bytes.
#ifdef KW_HAS_WGMMA
#define KW_BACKWARD_MEASURED(op, centered, threads)                                                                 \
  KW_BACKWARD(op, late_float16, threads, kw::Float16, centered, kw::Lie::kOn16, 2)                                  \
  KW_BACKWARD(op, late_bfloat16, threads, kw::BFloat16, centered, kw::Lie::kOn16, 2)                                \
  KW_BACKWARD(op, phased_wide_bfloat16, 512, kw::BFloat16, centered, kw::Lie::kInPhase, 1, kw::kWideColumns)        \
  KW_BACKWARD(op, phased_bfloat16, 512, kw::BFloat16, centered, kw::Lie::kInPhase)                                  \
  extern "C" __global__ void __launch_bounds__(512, 1) op##_backward_dense_bfloat16(const KwNormBackwardParams p) { \
    kw::norm_backward_dense<kw::BFloat16, centered>(p);                                                             \
  }
#else
#define KW_BACKWARD_MEASURED(op, centered, threads)
#endif

#ifdef KW_HAS_PDL
#define KW_BACKWARD_FEW(op, type, T, centered)                                                                  \
  extern "C" __global__ void __launch_bounds__(1024) op##_backward_few_##type(const KwNormBackwardParams p) {   \
    kw::norm_backward_few<kw::T, centered>(p);                                                                  \
  }                                                                                                             \
  extern "C" __global__ void __launch_bounds__(512) op##_backward_columns_##type(const KwNormColumnsParams p) { \
    kw::norm_backward_columns<kw::T, centered>(p);                                                              \
  }
#else
#define KW_BACKWARD_FEW(op, type, T, centered)
#endif

#define KW_BACKWARD_TYPE(op, type, T, centered, threads)                  \
  KW_BACKWARD(op, type, threads, kw::T, centered, kw::Lie::kOn16)         \
  KW_BACKWARD(op, shifted_##type, 512, kw::T, centered, kw::Lie::kAnyhow) \
  KW_BACKWARD_FEW(op, type, T, centered)

// `half`: threads of a block, of 16-bit types. Blocks that share a row and are no cluster take more registers.
#ifdef KW_HAS_CLUSTER
#define KW_BACKWARD_HALF(half) half
#else
#define KW_BACKWARD_HALF(half) 512
#endif
#define KW_NORM_BACKWARD(op, centered, half)                                                            \
  KW_BACKWARD_TYPE(op, float32, Float32, centered, 512)                                                 \
  KW_BACKWARD_TYPE(op, float16, Float16, centered, KW_BACKWARD_HALF(half))                              \
  KW_BACKWARD_TYPE(op, bfloat16, BFloat16, centered, KW_BACKWARD_HALF(half))                            \
  KW_BACKWARD_MEASURED(op, centered, half)                                                              \
  extern "C" __global__ void __launch_bounds__(1024) op##_backward_finish(const KwNormFinishParams p) { \
    kw::norm_backward_finish(p);                                                                        \
  }
