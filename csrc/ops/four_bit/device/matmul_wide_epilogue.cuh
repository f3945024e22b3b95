// SPDX-License-Identifier: MIT
// The end of a tile of matmul_wide.cuh. Where pairs of blocks share it, each warp's sums meet those that the same warps
// of the others have, in the order of k; who began the tile adds them up. Then they are turned, through shared memory,
// so that 16 bytes of a row of y are stored together.
#pragma once

#include "device/element.cuh"
#include "device/ptx/flag.cuh"
#include "device/ptx/memory.cuh"
#include "device/ptx/stmatrix.cuh"
#include "ops/four_bit/device/matmul_wide_scheduler.cuh"
#include "ops/four_bit/device/matmul_wide_shared.cuh"
#include "ops/four_bit/device/scales.cuh"

namespace kw {

template <class T, u32 kCols>
struct WideEpilogue4bit {
  static constexpr u32 kUnits = kCols / 8;  // of 16 bytes, the sums of a lane
  using Sums = float[kCols / 2];
  const KwMatmul4bitWideParams& p;
  u32 rank, warp;  // of those that multiply
  u32 room;        // in shared memory

  // The number of a warp of some pair.
  __device__ __forceinline__ u32 number(u32 pair) const { return (pair * kWideCluster + rank) * kWideWarps + warp; }

  __device__ __forceinline__ char* sums_of(u32 pair) const {
    return p.sums + (number(pair) * u64{kUnits} * kWarp + threadIdx.x % kWarp) * 16;
  }

  __device__ __forceinline__ void give(const Sums& d, u32 pair) const {
    char* const to = sums_of(pair);
#pragma unroll
    for (u32 i = 0; i < kUnits; ++i) {
      u32 word[4];
#pragma unroll
      for (u32 j = 0; j < 4; ++j) word[j] = bits_of_float(d[i * 4 + j]);
      store_to_read(to + i * (kWarp * 16), word);
    }
    __syncwarp();
    if (threadIdx.x % kWarp == 0) store_flag(p.ready + number(pair), 1);
  }

  __device__ __forceinline__ void take(Sums& d, u32 pair) const {
    if (threadIdx.x % kWarp == 0) {
      while (load_flag(p.ready + number(pair)) == 0) {
      }
    }
    __syncwarp();
    const char* const from = sums_of(pair);
#pragma unroll
    for (u32 i = 0; i < kUnits; ++i) {
      u32 word[4];
      load_from_l2(from + i * (kWarp * 16), word);
#pragma unroll
      for (u32 j = 0; j < 4; ++j) d[i * 4 + j] += float_of_bits(word[j]);
    }
  }

  // What the pairs of smaller numbers have of the rest of the tile.
  __device__ __forceinline__ void take_all(Sums& d, const WideScheduler4bit& scheduler, u32 rest) const {
    u32 pair = scheduler.pair;
#pragma unroll 1
    while (rest > 0) {
      const u32 order = scheduler.pairs - pair;  // of the pair before
      const u32 count = scheduler.share(order + 1) - scheduler.share(order);
      --pair;
      if (count > 0) take(d, pair);
      rest -= count < rest ? count : rest;
    }
  }

  // 16 columns of the sums to shared memory, as rows of 16 results.
  __device__ __forceinline__ void put(const Sums& d, u32 which, const float (&bias)[2]) const {
    const u32 lane = threadIdx.x % kWarp, matrix = lane / 8;
    const u32 to = room + (matrix / 2 * 8 + lane % 8) * kWideEndPitch + matrix % 2 * 16;
#pragma unroll
    for (u32 s = 0; s < kCols / 16; ++s) {
      if (s != which) continue;
      u32 word[4];
#pragma unroll
      for (u32 i = 0; i < 4; ++i) {
        const float by = bias[i % 2];
        word[i] = T::pack(d[s * 8 + i * 2] + by, d[s * 8 + i * 2 + 1] + by);
      }
      store_matrices_transposed(to, word);
    }
  }

  // A lane has eight results of a row.
  __device__ __forceinline__ void store_row(u32 column, u32 row) const {
    const u32 lane = threadIdx.x % kWarp;
    u32 word[4];
    load_shared<16>(room + lane / 2 * kWideEndPitch + lane % 2 * 16, word);
    const u32 m = column + lane / 2, n = row + lane % 2 * 8;
    if (m >= p.m || n >= p.n) return;
    char* const to = p.y + m * p.y_pitch + n * u64{2};
    if (p.vectors && n + 8 <= p.n) return store<16>(to, word);
#pragma unroll
    for (u32 i = 0; i < 8; ++i) {
      const u32 one[1] = {word[i / 2] >> (i % 2 * 16)};
      if (n + i < p.n) store<2>(to + i * 2, one);
    }
  }

  __device__ __forceinline__ void store_all(const Sums& d, const Tile& tile) const {
    const u32 row = (tile.column * kWideCluster + rank) * kWideRows + warp * 16, mine = row + threadIdx.x % kWarp / 4;
    float bias[2] = {};
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
      if (p.bias != nullptr && mine + i * 8 < p.n) bias[i] = load_element<T>(p.bias + (mine + i * 8) * u64{2});
    }
#pragma unroll 1
    for (u32 i = 0; i < kCols / 16; ++i) {
      __syncwarp();  // all have read what lay there
      put(d, i, bias);
      __syncwarp();
      store_row(tile.row * kCols + i * 16, row);
    }
  }

  __device__ __forceinline__ void run(Sums& d, const WideScheduler4bit& scheduler, const WidePiece4bit& piece) const {
    if (piece.first > 0) return give(d, scheduler.pair);
    if (piece.count < p.steps) take_all(d, scheduler, p.steps - piece.count);
    store_all(d, piece.tile);
  }
};

// The words by which pairs of blocks tell each other of their sums, before they begin.
__device__ __forceinline__ void matmul_4bit_wide_begin(const KwMatmul4bitWideBeginParams& p) {
  const u32 at = blockIdx.x * blockDim.x + threadIdx.x;
  allow_next_kernel();
  wait_for_previous_kernel();
  if (at < p.count) p.ready[at] = 0;
}

}  // namespace kw
