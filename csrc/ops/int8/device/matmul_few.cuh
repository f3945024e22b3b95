// SPDX-License-Identifier: MIT
// The product of few rows of x: to read the weight is what takes the time. It is the left matrix, 32 of its rows a
// block, whose warps have k between them; rows of x are the columns. Bytes of k come in the order in which lanes load
// them, 16 at a time, for both factors alike.
#pragma once

#include "device/ptx/matrix.cuh"
#include "device/ptx/sync.cuh"
#include "ops/int8/device/matmul_result.cuh"

#if defined(KW_HAS_INT8_MMA) && defined(KW_HAS_CP_ASYNC)

namespace kw {

template <u32 kParts>  // of eight rows of x
struct MatmulInt8Few {
  static constexpr u32 kColumns = KW_MATMUL_FEW_COLUMNS, kWarps = KW_MATMUL_FEW_WARPS, kChunk = KW_MATMUL_FEW_CHUNK;
  static constexpr u32 kTiles = kColumns / 16, kLoads = kChunk / 64, kRows = kParts * 8;
  using Partial = int[kWarps][kRows][kColumns + 1];
  const KwMatmulInt8AnyParams& p;
  const i64 first;  // of the weight's rows
  const u32 lane;
  int sum[kTiles][kParts][4];
  u32 left[kTiles * 2][kLoads][4];

  __device__ __forceinline__ explicit MatmulInt8Few(const KwMatmulInt8AnyParams& p)
      : p(p), first(i64{blockIdx.x} * kColumns), lane(threadIdx.x % 32) {
#pragma unroll
    for (u32 i = 0; i < kTiles * kParts * 4; ++i) sum[i / (kParts * 4)][i / 4 % kParts][i % 4] = 0;
  }

  __device__ __forceinline__ i64 byte(i64 chunk, u32 load) const { return chunk * kChunk + load * 64 + lane % 4 * 16; }

  __device__ __forceinline__ static void clear(u32 (&word)[4]) {
#pragma unroll
    for (u32 i = 0; i < 4; ++i) word[i] = 0;
  }

  __device__ __forceinline__ void fetch(i64 chunk) {
#pragma unroll
    for (u32 i = 0; i < kTiles * 2; ++i) {
      const i64 row = first + i * 8 + lane / 4;
#pragma unroll
      for (u32 j = 0; j < kLoads; ++j) {
        clear(left[i][j]);
        if (row < p.to.n && byte(chunk, j) < p.k)
          load_once(p.weight + row * p.weight_pitch + byte(chunk, j), left[i][j]);
      }
    }
  }

  __device__ __forceinline__ void multiply(i64 chunk, const u32 (&of)[kTiles * 2][kLoads][4]) {
#pragma unroll
    for (u32 j = 0; j < kLoads; ++j) {
#pragma unroll
      for (u32 part = 0; part < kParts; ++part) {
        const u32 row = part * 8 + lane / 4;
        u32 right[4];
        clear(right);
        if (row < p.to.m && byte(chunk, j) < p.k) load<16>(p.x + row * p.x_pitch + byte(chunk, j), right);
#pragma unroll
        for (u32 i = 0; i < kTiles; ++i) {
          const u32(&low)[4] = of[i * 2][j];
          const u32(&high)[4] = of[i * 2 + 1][j];
#pragma unroll
          for (u32 k = 0; k < 4; k += 2) {
            const u32 a[4] = {low[k], high[k], low[k + 1], high[k + 1]};
            multiply_int8(sum[i][part], a, right[k], right[k + 1]);
          }
        }
      }
    }
  }

  // The warps' sums to shared memory, then each thread adds up some elements of the result.
  __device__ __forceinline__ void finish(Partial& partial) const {
    const u32 warp = threadIdx.x / 32;
#pragma unroll
    for (u32 i = 0; i < kTiles; ++i) {
#pragma unroll
      for (u32 part = 0; part < kParts; ++part) {
#pragma unroll
        for (u32 j = 0; j < 4; ++j) {
          partial[warp][part * 8 + lane % 4 * 2 + j % 2][i * 16 + j / 2 * 8 + lane / 4] = sum[i][part][j];
        }
      }
    }
    __syncthreads();
    const MatmulColumns<1> columns(p.to, first + lane);
#pragma unroll 1
    for (u32 row = warp; row < kRows && row < p.to.m; row += kWarps) {
      int total[1] = {0};
#pragma unroll
      for (u32 i = 0; i < kWarps; ++i) total[0] += partial[i][row][lane];
      columns.put(row, first + lane, columns.row_scale(row), total);
    }
  }

  __device__ __forceinline__ void run() {
    __shared__ Partial partial;
    const i64 chunks = (p.k + kChunk - 1) / kChunk;
    i64 chunk = threadIdx.x / 32;
    allow_next_kernel();
    wait_for_previous_kernel();
    if (chunk < chunks) fetch(chunk);
#pragma unroll 1
    for (; chunk < chunks; chunk += kWarps) {
      u32 now[kTiles * 2][kLoads][4];
#pragma unroll
      for (u32 i = 0; i < kTiles * 2 * kLoads * 4; ++i)
        now[i / (kLoads * 4)][i / 4 % kLoads][i % 4] = left[i / (kLoads * 4)][i / 4 % kLoads][i % 4];
      fetch(chunk + kWarps);  // zeros past the end
      multiply(chunk, now);
    }
    finish(partial);
  }
};

}  // namespace kw

#endif
