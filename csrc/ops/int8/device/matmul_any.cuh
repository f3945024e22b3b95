// SPDX-License-Identifier: MIT
// The product on any GPU and wherever rows lie: tiles of 64 by 64, four products an instruction.
#pragma once

#include "device/ptx/dot.cuh"
#include "device/ptx/sync.cuh"
#include "ops/int8/device/matmul_result.cuh"

namespace kw {

struct MatmulInt8Any {
  static constexpr u32 kTile = KW_MATMUL_ANY, kWords = 8, kThreads = KW_MATMUL_ANY_THREADS, kEach = 4;
  using Stage = u32[kWords][kTile + 1];
  const KwMatmulInt8AnyParams& p;
  i64 first_row, first_column;

  __device__ __forceinline__ explicit MatmulInt8Any(const KwMatmulInt8AnyParams& p)
      : p(p), first_row(blockIdx.x / p.columns * i64{kTile}), first_column(blockIdx.x % p.columns * i64{kTile}) {}

  // Rows of a factor, 32 of k; zeros outside it.
  __device__ __forceinline__ void fetch(Stage& to, const char* from, i64 pitch, i64 first, i64 rows, i64 k) const {
#pragma unroll
    for (u32 i = threadIdx.x; i < kTile * kWords; i += kThreads) {
      const i64 row = first + i / kWords, at = k + i % kWords * 4;
      u32 word = 0;
      if (row < rows) {
#pragma unroll 1
        for (u32 j = 0; j < 4 && at + j < p.k; ++j) {
          u32 one[1];
          load<1>(from + row * pitch + at + j, one);
          word |= one[0] << (j * 8);
        }
      }
      to[i % kWords][i / kWords] = word;
    }
  }

  __device__ __forceinline__ void run() const {
    __shared__ Stage left;
    __shared__ Stage right;
    const u32 row = threadIdx.x / 16, column = threadIdx.x % 16;
    int sum[kEach * kEach] = {};
    allow_next_kernel();
    wait_for_previous_kernel();
#pragma unroll 1
    for (i64 k = 0; k < p.k; k += kWords * 4) {
      fetch(left, p.x, p.x_pitch, first_row, p.to.m, k);
      fetch(right, p.weight, p.weight_pitch, first_column, p.to.n, k);
      __syncthreads();
#pragma unroll
      for (u32 i = 0; i < kWords; ++i) {
#pragma unroll
        for (u32 j = 0; j < kEach * kEach; ++j) {
          sum[j] = dot4(left[i][row + j / kEach * 16], right[i][column + j % kEach * 16], sum[j]);
        }
      }
      __syncthreads();
    }
#pragma unroll 1
    for (u32 j = 0; j < kEach * kEach; ++j) {
      int value[1] = {0};
#pragma unroll
      for (u32 s = 0; s < kEach * kEach; ++s) value[0] = s == j ? sum[s] : value[0];
      const i64 at_row = first_row + row + j / kEach * 16, at = first_column + column + j % kEach * 16;
      const MatmulColumns<1> columns(p.to, at);
      columns.put(at_row, at, columns.row_scale(at_row), value);
    }
  }
};

}  // namespace kw
