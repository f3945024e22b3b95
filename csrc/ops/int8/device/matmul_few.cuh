// SPDX-License-Identifier: MIT
// The product of few rows of x: to read the weight is what takes the time. It is the left matrix, 16 of its rows at a
// time; a block's warps have k between them, and go through its rows with the next chunks always on their way. Rows of
// x are the columns; they stay in L1. Bytes of k come in the order in which lanes load them, 16 at a time, for both
// factors alike.
#pragma once

#include "device/ptx/matrix.cuh"
#include "device/ptx/sync.cuh"
#include "ops/int8/device/matmul_result.cuh"

#ifdef KW_HAS_CP_ASYNC  // products of so many bytes came with it

namespace kw {

// Kind::multiply(sums, left, right) of a warp, of 32 bytes of k, and result(sum) of what that gives. kAhead: chunks on
// their way. kEndsOnce: with an activation, the end of a block's rows is so much code that it stands once, at the cost
// of a branch for each chunk.
template <class Kind, u32 kParts>  // of eight rows of x
struct MatmulFew {
  using Sum = typename Kind::Sum;
  static constexpr u32 kColumns = KW_MATMUL_FEW_COLUMNS, kWarps = KW_MATMUL_FEW_WARPS, kChunk = KW_MATMUL_FEW_CHUNK;
  static constexpr u32 kLoads = kChunk / 64, kRows = kParts * 8, kAhead = Kind::kAhead;
  using Partial = Sum[2][kWarps][kRows][kColumns + 1];
  using Chunk = u32[2][kLoads][4];  // of a lane: of rows lane / 4 and lane / 4 + 8
  const KwMatmulAnyParams& p;
  const u32 lane, warp, rounds;  // of chunks, one for each warp
  Sum sum[kParts][4];

  __device__ __forceinline__ explicit MatmulFew(const KwMatmulAnyParams& p)
      : p(p),
        lane(threadIdx.x % 32),
        warp(threadIdx.x / 32),
        rounds(static_cast<u32>((p.k + kChunk * kWarps - 1) / (kChunk * kWarps))) {}

  __device__ __forceinline__ i64 byte(u32 round, u32 load) const {
    return i64{round * kWarps + warp} * kChunk + load * 64 + lane % 4 * 16;
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (u32 i = 0; i < kParts * 4; ++i) sum[i / 4][i % 4] = 0;
  }

  // 16 bytes of a row, zeros outside the matrix.
  template <bool kOnce>
  __device__ __forceinline__ void load_bytes(const char* from, i64 pitch, i64 row, i64 rows, i64 at,
                                             u32 (&word)[4]) const {
#pragma unroll
    for (u32 i = 0; i < 4; ++i) word[i] = 0;
    if (row >= rows || at >= p.k) return;
    if constexpr (kOnce) {
      load_once(from + row * pitch + at, word);
    } else {
      load<16>(from + row * pitch + at, word);
    }
  }

  __device__ __forceinline__ void fetch(Chunk& to, u32 group, u32 round) const {
#pragma unroll
    for (u32 i = 0; i < 2 * kLoads; ++i) {
      const i64 row = i64{group} * kColumns + i / kLoads * 8 + lane / 4;
      load_bytes<true>(p.weight, p.weight_pitch, row, p.to.n, byte(round, i % kLoads), to[i / kLoads][i % kLoads]);
    }
  }

  __device__ __forceinline__ void multiply(const Chunk& left, u32 round) {
#pragma unroll
    for (u32 j = 0; j < kLoads; ++j) {
#pragma unroll
      for (u32 part = 0; part < kParts; ++part) {
        u32 right[4];
        load_bytes<false>(p.x, p.x_pitch, part * 8 + lane / 4, p.to.m, byte(round, j), right);
#pragma unroll
        for (u32 k = 0; k < 4; k += 2) {
          const u32 a[4] = {left[0][j][k], left[1][j][k], left[0][j][k + 1], left[1][j][k + 1]};
          Kind::multiply(sum[part], a, right[k], right[k + 1]);
        }
      }
    }
  }

  // The warps' sums to shared memory, then a thread adds up those of an element of the result. Of the two rooms one may
  // still be read.
  __device__ __forceinline__ void finish(Partial& partial, u32 group, u32 turn) {
#pragma unroll
    for (u32 i = 0; i < kParts * 4; ++i) {
      const u32 row = i / 4 * 8 + lane % 4 * 2 + i % 2;
      partial[turn][warp][row][i % 4 / 2 * 8 + lane / 4] = sum[i / 4][i % 4];
    }
    clear();
    __syncthreads();
    const u32 row = threadIdx.x / kColumns, inside = threadIdx.x % kColumns;
    const i64 column = i64{group} * kColumns + inside;
    if (row >= kRows || row >= p.to.m || column >= p.to.n) return;
    const MatmulColumns<1, Sum> columns(p.to, column, p.activation);
    Sum total[1] = {0};
#pragma unroll
    for (u32 i = 0; i < kWarps; ++i) total[0] += partial[turn][i][row][inside];
    total[0] = Kind::result(total[0]);
    columns.put(row, column, columns.row_scale(row), total);
  }

  // Chunks in the order of a block's rows of the weight: which rows, and which round of a row.
  struct Place {
    u32 group, round;
    __device__ __forceinline__ void advance(u32 rounds) {
      if (++round == rounds) round = 0, group += gridDim.x;
    }
  };

  __device__ __forceinline__ void run() {
    __shared__ Partial partial;
    Chunk left[kAhead];
    Place now = {blockIdx.x, 0}, next = now;
    u32 turn = 0;
    clear();
    allow_next_kernel();
    wait_for_previous_kernel();
#pragma unroll
    for (u32 i = 0; i < kAhead; ++i, next.advance(rounds)) fetch(left[i], next.group, next.round);
    auto step = [&](Chunk& chunk) {
      multiply(chunk, now.round);
      fetch(chunk, next.group, next.round);
      next.advance(rounds);
    };
    auto end = [&] {
      if (now.round + 1 == rounds) {
        finish(partial, now.group, turn);
        turn ^= 1;
      }
      now.advance(rounds);
    };
    if constexpr (Kind::kEndsOnce) {
#pragma unroll 1
      for (u32 slot = 0; now.group < p.columns; slot = slot + 1 < kAhead ? slot + 1 : 0) {
#pragma unroll
        for (u32 i = 0; i < kAhead; ++i) {
          if (slot == i) step(left[i]);
        }
        end();
      }
    } else {
#pragma unroll 1
      while (now.group < p.columns) {
#pragma unroll
        for (u32 i = 0; i < kAhead; ++i) {
          if (now.group >= p.columns) break;
          step(left[i]);
          end();
        }
      }
    }
  }
};

}  // namespace kw

#endif
