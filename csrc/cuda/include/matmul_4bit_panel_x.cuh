// SPDX-License-Identifier: MIT
// x as the tensor cores of matmul_4bit_panel.cuh read it, made once a call: slices of 64 of k, each with all rows of a
// group of x, which are the columns of a right matrix in the layout of ptx_wgmma.cuh. So a slice is one copy.
//
// Within 32 of k the words, of two elements each, are in another order: word 4 i + j was word 4 j + i. Thus the pairs
// of a lane's four bytes of codes, which are words 4 * place to 4 * place + 3, are what two left matrices want of it.
#pragma once

#include "four_bit_params.h"
#include "ptx_memory.cuh"
#include "ptx_sync.cuh"

namespace kw {

constexpr u32 kSliceBytes = 128;  // of a row of x

__device__ __forceinline__ void load_by_elements(const char* from, u32 (&word)[4]) {
#pragma unroll
  for (u32 i = 0; i < 8; ++i) {
    u32 half[1];
    load<2>(from + i * 2, half);
    word[i / 2] |= half[0] << (i % 2 * 16);
  }
}

// One thread has 32 of k of one row. Rows past the last one are zeros.
__device__ __forceinline__ void matmul_4bit_panel_x(const KwMatmul4bitPanelXParams& p) {
  // In this order: all that was written before this kernel may be read by the next one before it waits for this one.
  wait_for_previous_kernel();
  allow_next_kernel();
  const u32 index = blockIdx.x * blockDim.x + threadIdx.x;
  const u32 half = index & 1u;
  const u32 row = (index >> 1) / p.slices, slice = (index >> 1) - row * p.slices;
  if (row >= p.rows) return;
  u32 word[4][4] = {};
  if (row < p.m) {
    const char* from = p.x + row * p.x_pitch + (slice * u64{2} + half) * 64;
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      if (p.aligned) {
        load<16>(from + i * 16, word[i]);
      } else {
        load_by_elements(from + i * 16, word[i]);
      }
    }
  }
  const u32 group = row >> p.group_log2, column = row - (group << p.group_log2);
  char* to = p.to + (((group * u64{p.slices} + slice) << p.group_log2) + column) * kSliceBytes;
#pragma unroll
  for (u32 i = 0; i < 4; ++i) {
    const u32 turned[4] = {word[0][i], word[1][i], word[2][i], word[3][i]};
    store_to_read(to + ((half * 4 + i) ^ (column & 7u)) * 16, turned);
  }
}

}  // namespace kw
