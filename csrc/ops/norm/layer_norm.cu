// SPDX-License-Identifier: MIT
// Layer normalisation of rows. Which of these kernels runs, and with how many threads, is the launcher's choice
// (csrc/ops/norm/host/plan.h). A unit is what one load brings: 16 bytes, or an element.
//
//   row           a row is a warp's, a block's or a cluster's, four units a thread at most
//   long          the same, eight units a thread
//   shifted       row for rows that lie anyhow; long_shifted is long for them
//   narrow        a row is at most one unit a lane of a warp
//   staged        dense narrow rows through shared memory, of any width and wherever they begin
//   stream        long rows: read twice, the second time from cache
//   slide         stream for rows that lie anyhow
//   scalar        narrow by elements, for rows that lie anyhow
//   walk          long rows: clusters that stay, and walk over rows that lie alike
//   walk_five     walk with five units a thread at most, not eight: more clusters at a time
//   thin          a row is at most four elements a lane of a warp, with a residual
//   pair          row for two long rows at once, with a residual
#include "ops/norm/device/backward_kernels.cuh"
#include "ops/norm/device/narrow.cuh"
#include "ops/norm/device/pair.cuh"
#include "ops/norm/device/row.cuh"
#include "ops/norm/device/staged.cuh"
#include "ops/norm/device/stream.cuh"
#include "ops/norm/device/thin.cuh"
#include "ops/norm/device/walk.cuh"

// A cluster holds any row; what reads rows twice is for GPUs without (plan.h says so too).
#ifdef KW_HAS_CLUSTER
#define KW_TWICE(type, T)
#else
#define KW_TWICE(type, T)                                                         \
  KW_KERNEL(stream_##type, 512, 3, kw::norm_stream<true, kw::T, false, false>)    \
  KW_KERNEL(stream_add_##type, 512, 2, kw::norm_stream<true, kw::T, true, false>) \
  KW_KERNEL(slide_##type, 512, 2, kw::norm_stream<true, kw::T, true, true>)
#endif

// The names are the launcher's: layer_norm_<shape>[_add]_<type>. Of blocks of `threads` a multiprocessor holds at least
// `blocks`, which bounds the registers.
#define KW_KERNEL(name, threads, blocks, ...)                                                             \
  extern "C" __global__ void __launch_bounds__(threads, blocks) layer_norm_##name(const KwNormParams p) { \
    __VA_ARGS__(p);                                                                                       \
  }
#define KW_KERNELS(type, T)                                                          \
  KW_KERNEL(row_##type, 640, 2, kw::norm_row<true, kw::T, false, false, 4>)          \
  KW_KERNEL(row_add_##type, 1024, 1, kw::norm_row<true, kw::T, true, false, 4>)      \
  KW_KERNEL(shifted_##type, 576, 2, kw::norm_row<true, kw::T, false, true, 4>)       \
  KW_KERNEL(shifted_add_##type, 1024, 1, kw::norm_row<true, kw::T, true, true, 4>)   \
  KW_KERNEL(narrow_##type, 64, 12, kw::norm_narrow<true, kw::T, false, 16>)          \
  KW_KERNEL(narrow_add_##type, 64, 8, kw::norm_narrow<true, kw::T, true, 16>)        \
  KW_KERNEL(staged_##type, 256, 6, kw::norm_staged<true, kw::T, false>)              \
  KW_KERNEL(staged_add_##type, 256, 4, kw::norm_staged<true, kw::T, true>)           \
  KW_KERNEL(scalar_##type, 64, 14, kw::norm_narrow<true, kw::T, true, kw::T::kSize>) \
  KW_KERNEL(long_##type, 512, 2, kw::norm_row<true, kw::T, false, false, 8>)         \
  KW_KERNEL(long_shifted_##type, 512, 2, kw::norm_row<true, kw::T, false, true, 8>)  \
  KW_TWICE(type, T)

KW_KERNELS(float32, Float32)
KW_KERNELS(float16, Float16)
KW_KERNELS(bfloat16, BFloat16)

// Where these were measured.
#ifdef KW_HAS_WGMMA
#define KW_WALK(type, T) KW_KERNEL(walk_##type, 448, 2, kw::norm_walk<true, kw::T, false, 8>)
#define KW_MEASURED(type, T)                                                \
  KW_KERNEL(thin_##type, 128, 9, kw::norm_thin<true, kw::T, 4>)             \
  KW_KERNEL(pair_##type, 256, 2, kw::norm_pair<kw::T>)                      \
  KW_KERNEL(walk_five_##type, 320, 3, kw::norm_walk<true, kw::T, false, 5>) \
  KW_KERNEL(walk_add_##type, 384, 2, kw::norm_walk<true, kw::T, true, 5>)
KW_WALK(float32, Float32)
KW_WALK(float16, Float16)
KW_WALK(bfloat16, BFloat16)
KW_MEASURED(float16, Float16)
KW_MEASURED(bfloat16, BFloat16)
KW_BACKWARD(layer_norm, wide_bfloat16, 512, kw::BFloat16, true, kw::Lie::kOn16, 1, kw::kWideColumns)
#endif

KW_NORM_BACKWARD(layer_norm, true, 640)
