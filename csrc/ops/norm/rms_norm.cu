// SPDX-License-Identifier: MIT
// RMS normalisation of rows. Which of these kernels runs, and with how many threads, is the launcher's choice
// (csrc/ops/norm/host/plan.h). A unit is what one load brings: 16 bytes, or an element.
//
//   row           a row is a warp's, a block's or a cluster's, four units a thread at most
//   long          the same, eight units a thread
//   shifted       row for rows that lie anyhow; long_shifted is long for them
//   narrow        a row is at most one unit a lane of a warp
//   flat          dense narrow rows, of any width from a unit on, in registers
//   staged        dense narrow rows through shared memory, of any width and wherever they begin
//   stream        long rows: read twice, the second time from cache
//   slide         stream for rows that lie anyhow
//   scalar        narrow by elements, for rows that lie anyhow
//   walk          long rows: clusters that stay, and walk over rows that lie alike
//   thin          a row is at most four elements a lane of a warp, with a residual
#include "ops/norm/device/backward_kernels.cuh"
#include "ops/norm/device/flat.cuh"
#include "ops/norm/device/narrow.cuh"
#include "ops/norm/device/row.cuh"
#include "ops/norm/device/staged.cuh"
#include "ops/norm/device/stream.cuh"
#include "ops/norm/device/thin.cuh"
#include "ops/norm/device/walk.cuh"

// The names are the launcher's: rms_norm_<shape>[_add]_<type>. Of blocks of `threads` a multiprocessor holds at least
// `blocks`, which bounds the registers: without a residual 40 do, and half as many warps again are at work.
// Rounding to bfloat16 by integers takes a few registers more.
#ifdef KW_HAS_BF16_CVT
#define KW_NARROW_BLOCKS 11
#else
#define KW_NARROW_BLOCKS 10
#endif
// A cluster holds any row. Rows are read twice where there are none, and where this is known to pay: there, by as many
// warps as a multiprocessor has (plan.h says so too).
#ifdef KW_HAS_WGMMA
#define KW_STREAM_BLOCKS 2
#else
#define KW_STREAM_BLOCKS 1
#endif
#if defined(KW_HAS_CLUSTER) && !defined(KW_HAS_WGMMA)
#define KW_STREAM(type, T)
#else
#define KW_STREAM(type, T)                                                                      \
  KW_KERNEL(stream_##type, 1024, KW_STREAM_BLOCKS, kw::norm_stream<false, kw::T, false, false>) \
  KW_KERNEL(stream_add_##type, 512, 2, kw::norm_stream<false, kw::T, true, false>)
#endif
#ifdef KW_HAS_CLUSTER
#define KW_SLIDE(type, T)
#else
#define KW_SLIDE(type, T) KW_KERNEL(slide_##type, 512, 2, kw::norm_stream<false, kw::T, true, true>)
#endif
#define KW_KERNEL(name, threads, blocks, ...)                                                           \
  extern "C" __global__ void __launch_bounds__(threads, blocks) rms_norm_##name(const KwNormParams p) { \
    __VA_ARGS__(p);                                                                                     \
  }
#define KW_KERNELS(type, T)                                                                   \
  KW_KERNEL(row_##type, 768, 2, kw::norm_row<false, kw::T, false, false, 4>)                  \
  KW_KERNEL(row_add_##type, 1024, 1, kw::norm_row<false, kw::T, true, false, 4>)              \
  KW_KERNEL(shifted_##type, 640, 2, kw::norm_row<false, kw::T, false, true, 4>)               \
  KW_KERNEL(shifted_add_##type, 1024, 1, kw::norm_row<false, kw::T, true, true, 4>)           \
  KW_KERNEL(narrow_##type, 64, 14, kw::norm_narrow<false, kw::T, false, 16>)                  \
  KW_KERNEL(narrow_add_##type, 64, KW_NARROW_BLOCKS, kw::norm_narrow<false, kw::T, true, 16>) \
  KW_KERNEL(flat_##type, 256, 4, kw::norm_flat<kw::T, false>)                                 \
  KW_KERNEL(flat_add_##type, 256, 3, kw::norm_flat<kw::T, true>)                              \
  KW_KERNEL(staged_##type, 256, 6, kw::norm_staged<false, kw::T, false>)                      \
  KW_KERNEL(staged_add_##type, 256, 4, kw::norm_staged<false, kw::T, true>)                   \
  KW_KERNEL(scalar_##type, 64, 14, kw::norm_narrow<false, kw::T, true, kw::T::kSize>)         \
  KW_KERNEL(long_##type, 512, 2, kw::norm_row<false, kw::T, false, false, 8>)                 \
  KW_KERNEL(long_shifted_##type, 512, 2, kw::norm_row<false, kw::T, false, true, 8>)          \
  KW_STREAM(type, T)                                                                          \
  KW_SLIDE(type, T)

KW_KERNELS(float32, Float32)
KW_KERNELS(float16, Float16)
KW_KERNELS(bfloat16, BFloat16)

// Where these were measured.
#ifdef KW_HAS_WGMMA
#define KW_WALK(type, T) KW_KERNEL(walk_##type, 448, 2, kw::norm_walk<false, kw::T, false, 8>)
#define KW_MEASURED(type, T)                                     \
  KW_KERNEL(thin_##type, 128, 9, kw::norm_thin<false, kw::T, 4>) \
  KW_KERNEL(walk_add_##type, 384, 2, kw::norm_walk<false, kw::T, true, 5>)
KW_WALK(float32, Float32)
KW_WALK(float16, Float16)
KW_WALK(bfloat16, BFloat16)
KW_MEASURED(float16, Float16)
KW_MEASURED(bfloat16, BFloat16)
#endif

KW_NORM_BACKWARD(rms_norm, false, 768)
