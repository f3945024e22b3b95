// SPDX-License-Identifier: MIT
// The product of e4m3 on any GPU and wherever rows lie: tiles of 64 by 64, sums in float32.
#pragma once

#include "device/ptx/sync.cuh"
#include "ops/fp8/device/e4m3.cuh"
#include "ops/fp8/params.h"
#include "ops/int8/device/matmul_result.cuh"

namespace kw {

struct MatmulFp8Any {
  static constexpr u32 kTile = KW_MATMUL_FP8_ANY, kDepth = 16, kThreads = KW_MATMUL_FP8_ANY_THREADS, kEach = 4;
  using Stage = float[kDepth][kTile + 1];
  const KwMatmulFp8AnyParams& p;
  i64 first_row, first_column;

  __device__ __forceinline__ explicit MatmulFp8Any(const KwMatmulFp8AnyParams& p)
      : p(p), first_row(blockIdx.x / p.columns * i64{kTile}), first_column(blockIdx.x % p.columns * i64{kTile}) {}

  // Rows of a factor, 16 of k; zeros outside it.
  __device__ __forceinline__ void fetch(Stage& to, const char* from, i64 pitch, i64 first, i64 rows, i64 k) const {
#pragma unroll
    for (u32 i = threadIdx.x; i < kTile * kDepth; i += kThreads) {
      const i64 row = first + i / kDepth, at = k + i % kDepth;
      u32 code[1] = {0};
      if (row < rows && at < p.k) load<1>(from + row * pitch + at, code);
      to[i % kDepth][i / kDepth] = float_of_e4m3(code[0]);
    }
  }

  __device__ __forceinline__ void run() const {
    __shared__ Stage left;
    __shared__ Stage right;
    const u32 row = threadIdx.x / 16, column = threadIdx.x % 16;
    float sum[kEach * kEach] = {};
    allow_next_kernel();
    wait_for_previous_kernel();
#pragma unroll 1
    for (i64 k = 0; k < p.k; k += kDepth) {
      fetch(left, p.x, p.x_pitch, first_row, p.to.m, k);
      fetch(right, p.weight, p.weight_pitch, first_column, p.to.n, k);
      __syncthreads();
#pragma unroll
      for (u32 i = 0; i < kDepth; ++i) {
#pragma unroll
        for (u32 j = 0; j < kEach * kEach; ++j) {
          sum[j] = fmaf(left[i][row + j / kEach * 16], right[i][column + j % kEach * 16], sum[j]);
        }
      }
      __syncthreads();
    }
#pragma unroll 1
    for (u32 j = 0; j < kEach * kEach; ++j) {
      float value[1] = {0.0f};
#pragma unroll
      for (u32 s = 0; s < kEach * kEach; ++s) value[0] = s == j ? sum[s] : value[0];
      const i64 at_row = first_row + row + j / kEach * 16, at = first_column + column + j % kEach * 16;
      const MatmulColumns<1, float> columns(p.to, at, p.activation);
      columns.put(at_row, at, columns.row_scale(at_row), value);
    }
  }
};

}  // namespace kw
