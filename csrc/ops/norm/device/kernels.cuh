// SPDX-License-Identifier: MIT
// The forward kernels of a norm. Which of them runs, and with how many threads, is the launcher's choice
// (csrc/ops/norm/host/plan.h), whose names these are: <op>_<shape>_<type>. But for row and stream there may be a
// residual. A unit is what one load brings: 16 bytes, or an element.
//
//   narrow      rows on 16 bytes, of at most one vector a lane of a warp
//   row, long   rows on 16 bytes: a warp's, a block's or a cluster's, with four vectors a thread; with eight, or four
//               and their residual
//   stream      long rows on 16 bytes, read twice, the second time from cache
//   staged      narrow rows without gaps through shared memory, of any width and wherever they begin
//   warp_row    rows on 8 bytes, of four elements a lane of a warp
//   unaligned   other rows, by elements
//
// The kernels of a norm's derivatives. Their names are the launcher's (csrc/ops/norm/host/backward_launch.h), which
// also chooses among them:
//
//   <op>_backward_<type>            rows on 16 bytes
//   <op>_backward_late_<type>       a cluster's rows, whose derivatives follow two rows after their sums
//   <op>_backward_wide_<type>       a cluster's rows, with weights of their type or none, by half as many threads
//   <op>_backward_unaligned_<type>  other rows, by elements
//   <op>_few_rows_<type>            few rows, in two kernels of which the second begins before the first has ended
//   <op>_few_rows_columns_<type>    the second
//   <op>_reduce_partials            the sums over rows
#pragma once

#include "ops/norm/device/backward.cuh"
#include "ops/norm/device/few_rows.cuh"
#include "ops/norm/device/narrow.cuh"
#include "ops/norm/device/row.cuh"
#include "ops/norm/device/staged.cuh"
#include "ops/norm/device/unaligned.cuh"

// Of blocks of `threads` a multiprocessor holds at least `blocks`, which bounds the registers.
#define KW_FORWARD(name, threads, blocks, ...) \
  extern "C" __global__ void __launch_bounds__(threads, blocks) name(const KwNormParams p) { __VA_ARGS__(p); }

#define KW_FORWARD_TYPE(op, type, T, centered, row_threads)                                                     \
  KW_FORWARD(op##_narrow_##type, kw::kNarrowThreads, centered ? 9 : 10, kw::norm_narrow<centered, kw::T>)       \
  KW_FORWARD(op##_row_##type, row_threads, kw::kRowBlocks, kw::norm_row<centered, kw::T, false, kw::kRowSlots>) \
  KW_FORWARD(op##_long_##type, kw::kLongThreads, 1, kw::norm_row<centered, kw::T, true, kw::kLongSlots>)        \
  KW_FORWARD(op##_unaligned_##type, kw::kUnalignedThreads, 3, kw::norm_unaligned<centered, kw::T>)              \
  KW_FORWARD(op##_staged_##type, kw::kStagedThreads, 5, kw::norm_staged<centered, kw::T>)

// Where it was measured.
#ifdef KW_HAS_WGMMA
#define KW_FORWARD_MEASURED(op, centered) \
  KW_FORWARD(op##_warp_row_bfloat16, kw::kWarpRowThreads, 9, kw::norm_warp_row<centered, kw::BFloat16, kw::kWarpRows>)
#else
#define KW_FORWARD_MEASURED(op, centered)
#endif

#define KW_NORM_FORWARD(op, centered, row_threads)               \
  KW_FORWARD_TYPE(op, float32, Float32, centered, row_threads)   \
  KW_FORWARD_TYPE(op, float16, Float16, centered, row_threads)   \
  KW_FORWARD_TYPE(op, bfloat16, BFloat16, centered, row_threads) \
  KW_FORWARD_MEASURED(op, centered)

#define KW_BACKWARD(name, threads, ...)                                                         \
  extern "C" __global__ void __launch_bounds__(threads, 1) name(const KwNormBackwardParams p) { \
    kw::norm_backward<__VA_ARGS__>(p);                                                          \
  }

#ifdef KW_HAS_PDL
#define KW_FEW_ROWS(op, type, T, centered)                                                                           \
  extern "C" __global__ void __launch_bounds__(kw::kFewThreads) op##_few_rows_##type(const KwNormBackwardParams p) { \
    kw::norm_few_rows<kw::T, centered>(p);                                                                           \
  }                                                                                                                  \
  extern "C" __global__ void __launch_bounds__(kw::kFewColumnsThreads)                                               \
      op##_few_rows_columns_##type(const KwNormColumnsParams p) {                                                    \
    kw::norm_few_rows_columns<kw::T, centered>(p);                                                                   \
  }
#else
#define KW_FEW_ROWS(op, type, T, centered)
#endif

#define KW_BACKWARD_TYPE(op, type, T, centered, threads)                                    \
  KW_BACKWARD(op##_backward_##type, threads, kw::T, centered, true)                         \
  KW_BACKWARD(op##_backward_unaligned_##type, kw::kBackwardThreads, kw::T, centered, false) \
  KW_FEW_ROWS(op, type, T, centered)

// `half`: threads of a block, of 16-bit types. Blocks that share a row and are no cluster take more registers.
#ifdef KW_HAS_CLUSTER
#define KW_BACKWARD_HALF(half) half
#else
#define KW_BACKWARD_HALF(half) kw::kBackwardThreads
#endif
#define KW_NORM_BACKWARD(op, centered, half)                                 \
  KW_BACKWARD_TYPE(op, float32, Float32, centered, kw::kBackwardThreads)     \
  KW_BACKWARD_TYPE(op, float16, Float16, centered, KW_BACKWARD_HALF(half))   \
  KW_BACKWARD_TYPE(op, bfloat16, BFloat16, centered, KW_BACKWARD_HALF(half)) \
  extern "C" __global__ void __launch_bounds__(kw::kPartialsThreads)         \
      op##_reduce_partials(const KwNormReduceParams p) {                     \
    kw::norm_reduce_partials(p);                                             \
  }
