// SPDX-License-Identifier: MIT
// Layer normalisation of rows. Which of these kernels runs, and with how many threads, is the launcher's choice
// (csrc/host/ops/layer_norm.cpp). A unit is what one load brings: 16 bytes, or an element.
//
//   row      a row is a warp's, a block's or a cluster's, kSlots units a thread at most
//   shifted  the same for rows that begin off 16 bytes (all tensors alike) or end off them
//   narrow   a row is at most one unit a lane of a warp
//   flat     narrow rows of any width that follow each other without a gap
//   stream   long rows: read twice, the second time from cache
//   scalar   narrow by elements, for rows that lie anyhow
//   trickle  stream by elements, for rows that lie anyhow
#include "norm_narrow.cuh"
#include "norm_row.cuh"
#include "norm_stream.cuh"

// The names are the launcher's: layer_norm_<shape>[_add]_<type>. Of blocks of `threads` a multiprocessor holds at least
// `blocks`, which bounds the registers: without a residual 40 do, and half as many warps again are at work.
// Rounding to bfloat16 by integers takes a few registers more.
#define KW_KERNEL(name, threads, blocks, ...)                                                             \
  extern "C" __global__ void __launch_bounds__(threads, blocks) layer_norm_##name(const KwNormParams p) { \
    __VA_ARGS__(p);                                                                                       \
  }
#define KW_KERNELS(type, T)                                                          \
  KW_KERNEL(row_##type, 640, 2, kw::norm_row<true, kw::T, false, false>)             \
  KW_KERNEL(row_add_##type, 1024, 1, kw::norm_row<true, kw::T, true, false>)         \
  KW_KERNEL(shifted_##type, 576, 2, kw::norm_row<true, kw::T, false, true>)          \
  KW_KERNEL(shifted_add_##type, 1024, 1, kw::norm_row<true, kw::T, true, true>)      \
  KW_KERNEL(narrow_##type, 64, 12, kw::norm_narrow<true, kw::T, false, 16>)          \
  KW_KERNEL(narrow_add_##type, 64, 8, kw::norm_narrow<true, kw::T, true, 16>)        \
  KW_KERNEL(stream_##type, 512, 3, kw::norm_stream<true, kw::T, false, 16>)          \
  KW_KERNEL(stream_add_##type, 512, 2, kw::norm_stream<true, kw::T, true, 16>)       \
  KW_KERNEL(scalar_##type, 64, 14, kw::norm_narrow<true, kw::T, true, kw::T::kSize>) \
  KW_KERNEL(trickle_##type, 1024, 1, kw::norm_stream<true, kw::T, true, kw::T::kSize>)

KW_KERNELS(float32, Float32)
KW_KERNELS(float16, Float16)
KW_KERNELS(bfloat16, BFloat16)
