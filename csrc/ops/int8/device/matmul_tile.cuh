// SPDX-License-Identifier: MIT
// The product by warps, on GPUs whose tensor cores multiply bytes but have no warpgroups: tiles of 128 by 128, 64 of k
// at a time, the next ones on their way meanwhile. Of eight warps each has 64 rows of x and 32 of the weight.
#pragma once

#include "device/ptx/async.cuh"
#include "device/ptx/matrix.cuh"
#include "device/ptx/sync.cuh"
#include "device/scheduler.cuh"
#include "ops/int8/device/matmul_result.cuh"

#ifdef KW_HAS_CP_ASYNC

namespace kw {

__device__ __forceinline__ char* matmul_tile_shared() {
  extern __shared__ __align__(128) char room[];
  return room;
}

// Kind::multiply(sums, left, right) of a warp, of 32 bytes of k.
template <class Kind>
struct MatmulTile {
  using Sum = typename Kind::Sum;
  static constexpr u32 kTile = KW_MATMUL_TILE, kDepth = KW_MATMUL_TILE_DEPTH, kPitch = KW_MATMUL_TILE_PITCH;
  static constexpr u32 kStages = KW_MATMUL_TILE_STAGES, kFactorBytes = kTile * kPitch,
                       kThreads = KW_MATMUL_TILE_THREADS;
  static constexpr u32 kRowTiles = 4, kColumnTiles = 4;  // of a warp: 16 rows and 8 columns each
  const KwMatmulAnyParams& p;
  u32 shared, lane, row, column;  // of the warp, in the tile
  i64 first_row, first_column;
  Sum sum[kRowTiles][kColumnTiles][4];

  __device__ __forceinline__ explicit MatmulTile(const KwMatmulAnyParams& p)
      : p(p), shared(shared_address(matmul_tile_shared())), lane(threadIdx.x % 32) {
    const u32 warp = threadIdx.x / 32;
    const Tile tile = TileScheduler{p.rows, p.columns, p.group}.at(blockIdx.x);
    row = warp / 4 * 64;
    column = warp % 4 * 32;
    first_row = i64{tile.row} * kTile;
    first_column = i64{tile.column} * kTile;
#pragma unroll
    for (u32 i = 0; i < kRowTiles * kColumnTiles * 4; ++i) sum[i / 16][i / 4 % 4][i % 4] = 0;
  }

  // 64 of k of the tile's rows of a factor, zeros outside it.
  __device__ __forceinline__ void copy(u32 to, const char* from, i64 pitch, i64 first, i64 rows, i64 k) const {
#pragma unroll
    for (u32 i = threadIdx.x; i < kTile * kDepth / 16; i += kThreads) {
      const u32 line = i / (kDepth / 16), part = i % (kDepth / 16) * 16;
      const bool inside = first + line < rows && k + part < p.k;  // k is a multiple of 16
      copy_async(to + line * kPitch + part, inside ? from + (first + line) * pitch + k + part : from, inside ? 16 : 0);
    }
  }

  __device__ __forceinline__ void fetch(u32 step) const {
    const u32 to = shared + step % kStages * (2 * kFactorBytes);
    const i64 k = i64{step} * kDepth;
    if (k < p.k) {
      copy(to, p.x, p.x_pitch, first_row, p.to.m, k);
      copy(to + kFactorBytes, p.weight, p.weight_pitch, first_column, p.to.n, k);
    }
    copies_commit();
  }

  __device__ __forceinline__ void multiply(u32 at) {
#pragma unroll
    for (u32 k = 0; k < kDepth; k += 32) {
      u32 left[kRowTiles][4], right[kColumnTiles / 2][4];
#pragma unroll
      for (u32 i = 0; i < kRowTiles; ++i) {
        load_matrices(at + (row + i * 16 + lane % 16) * kPitch + k + lane / 16 * 16, left[i]);
      }
#pragma unroll
      for (u32 i = 0; i < kColumnTiles / 2; ++i) {
        const u32 line = column + i * 16 + lane / 16 * 8 + lane % 8;
        load_matrices(at + kFactorBytes + line * kPitch + k + lane / 8 % 2 * 16, right[i]);
      }
#pragma unroll
      for (u32 i = 0; i < kRowTiles; ++i) {
#pragma unroll
        for (u32 j = 0; j < kColumnTiles; ++j) {
          Kind::multiply(sum[i][j], left[i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
        }
      }
    }
  }

  __device__ __forceinline__ void finish() const {
    const MatmulRoom<Sum> room = {shared + threadIdx.x / 32 * KW_MATMUL_ROOM_BYTES};
    __syncthreads();  // the stages are no longer read
#pragma unroll 1
    for (u32 slice = 0; slice < kRowTiles; ++slice) {
      __syncwarp();
#pragma unroll
      for (u32 s = 0; s < kRowTiles; ++s) {
        if (s != slice) continue;
#pragma unroll
        for (u32 i = 0; i < kColumnTiles * 2; ++i) {
          room.put(i / 2, i % 2, sum[s][i / 2][i % 2 * 2], sum[s][i / 2][i % 2 * 2 + 1]);
        }
      }
      __syncwarp();
      room.finish(p.to, first_row + row + slice * 16, first_column + column, p.activation);
    }
  }

  __device__ __forceinline__ void run() {
    allow_next_kernel();
    wait_for_previous_kernel();
    const u32 steps = static_cast<u32>((p.k + kDepth - 1) / kDepth);
#pragma unroll
    for (u32 step = 0; step + 1 < kStages; ++step) fetch(step);
#pragma unroll 1
    for (u32 step = 0; step < steps; ++step) {
      copies_wait<kStages - 2>();
      __syncthreads();  // all have what came, and have left the stage that is next
      fetch(step + kStages - 1);
      multiply(shared + step % kStages * (2 * kFactorBytes));
    }
    copies_wait<0>();
    finish();
  }
};

}  // namespace kw

#endif
