// SPDX-License-Identifier: MIT
// x as the tensor cores of matmul_narrow.cuh read it, made once a call: slices of 64 of k, each with all rows of a
// group of x, which are the columns of a right matrix in the layout of wgmma.cuh. So a slice is one copy.
//
// Within 32 of k the words, of two elements each, are in another order: word 4 i + j was word 4 j + i. Thus the pairs
// of a lane's four bytes of codes, which are words 4 * place to 4 * place + 3, are what two left matrices want of it.
#pragma once

#include "device/ptx/hints.cuh"
#include "device/ptx/memory.cuh"
#include "device/ptx/sync.cuh"
#include "ops/four_bit/geometry.h"
#include "ops/four_bit/params.h"

namespace kw {

// A word of x. aligned: it begins on 4 bytes.
__device__ __forceinline__ u32 load_pair(const char* from, int aligned) {
  u32 word[1], low[1], high[1];
  if (aligned) {
    load<4>(from, word);
    return word[0];
  }
  load<2>(from, low);
  load<2>(from + 2, high);
  return low[0] | high[0] << 16;
}

// One thread has 16 bytes of what is made: where they lie is worked out, and L2 has brought x, before the wait for the
// kernels ahead. Rows past the last one are zeros.
__device__ __forceinline__ void matmul_4bit_narrow_x(const KwMatmul4bitNarrowXParams& p) {
  const u32 index = blockIdx.x * blockDim.x + threadIdx.x;
  const u32 unit = index % kNarrowXUnits, half = unit >> 2, slices = index / kNarrowXUnits;
  const u32 row = slices / p.slices, slice = slices - row * p.slices;
  const u32 group = row >> p.group_log2, column = row - (group << p.group_log2);
  const char* from = p.x + row * p.x_pitch + slice * u64{kSliceBytes} + half * 64 + (unit & 3u) * 4;
  char* to = p.to + (((group * u64{p.slices} + slice) << p.group_log2) + column) * kSliceBytes;
  to += (unit ^ (column & 7u)) * 16;
  if (row < p.m && unit == 0) prefetch(from);
  if (p.early) allow_next_kernel();
  // In this order: all that was written before this kernel may be read by the next one before it waits for this one.
  wait_for_previous_kernel();
  allow_next_kernel();
  if (row >= p.rows) return;
  u32 word[4] = {};
  if (row < p.m) {
#pragma unroll
    for (u32 i = 0; i < 4; ++i) word[i] = load_pair(from + i * 16, p.aligned);
  }
  store_to_read(to, word);
}

}  // namespace kw
