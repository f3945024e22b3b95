// SPDX-License-Identifier: MIT
// A linear layer by warps, on GPUs whose tensor cores multiply 16-bit elements but have no warpgroups: tiles of 128 by
// 128, 32 of k at a time, the next ones on their way meanwhile. Of eight warps each has 32 rows of x and 64 of the
// weight; of a gated layer these are 32 of the gate and the 32 that they are multiplied with.
#pragma once

#include "device/epilogue.cuh"
#include "device/ptx/async.cuh"
#include "device/ptx/matrix.cuh"
#include "device/ptx/sync.cuh"
#include "device/scheduler.cuh"
#include "ops/linear/params.h"

#if defined(KW_HAS_BF16_MMA) && defined(KW_HAS_CP_ASYNC)

namespace kw {

__device__ __forceinline__ char* linear_warps_shared() {
  extern __shared__ __align__(128) char linear_warps_room[];
  return linear_warps_room;
}

template <class T, bool kGated>
struct LinearWarps {
  static constexpr u32 kTile = KW_LINEAR_WARPS_TILE, kPitch = KW_LINEAR_WARPS_PITCH, kThreads = KW_LINEAR_WARPS_THREADS;
  static constexpr u32 kDepth = KW_LINEAR_WARPS_DEPTH, kStages = KW_LINEAR_WARPS_STAGES, kFactor = kTile * kPitch;
  static constexpr u32 kRows = 32, kLines = 64, kResults = kGated ? kLines / 2 : kLines;  // of a warp
  static constexpr u32 kRowTiles = kRows / 16, kLineTiles = kLines / 8;
  using Sums = float[kRowTiles][kLineTiles * 4];
  const KwLinearAnyParams& p;
  u32 shared, lane, row, line;  // of the warp, in the tile
  u32 first_row, first_column;

  __device__ __forceinline__ explicit LinearWarps(const KwLinearAnyParams& p)
      : p(p), shared(shared_address(linear_warps_shared())), lane(threadIdx.x % 32) {
    const u32 warp = threadIdx.x / 32;
    const Tile tile = TileScheduler{p.rows, p.columns, p.group}.at(blockIdx.x);
    row = warp % 4 * kRows;
    line = warp / 4 * kLines;
    first_row = tile.row * kTile;
    first_column = tile.column * (kTile / kLines * kResults);
  }

  // Which row of the weight a line of the tile is, -1: none.
  __device__ __forceinline__ i64 weight_row(u32 of) const {
    const u32 column = first_column + of / kLines * kResults + of % kResults;
    if (column >= p.n) return -1;
    return kGated && of % kLines >= kResults ? p.n + column : i64{column};
  }

  // 16 bytes of a row of a factor, zeros past its end.
  __device__ __forceinline__ void copy(u32 to, const char* from, i64 pitch, i64 of, i64 k) const {
    const i64 left = of < 0 ? 0 : (p.k - k) * 2;
    const u32 bytes = left >= 16 ? 16 : left > 0 ? static_cast<u32>(left) : 0;
    copy_async(to, bytes > 0 ? from + of * pitch + k * 2 : from, bytes);
  }

  __device__ __forceinline__ void fetch(u32 step) const {
    constexpr u32 kParts = kDepth * 2 / 16;
    const u32 to = shared + step % kStages * (2 * kFactor);
    const i64 k = i64{step} * kDepth;
    if (k < p.k) {
#pragma unroll
      for (u32 i = threadIdx.x; i < kTile * kParts; i += kThreads) {
        const u32 of = i / kParts, part = i % kParts, at = to + of * kPitch + part * 16;
        const i64 x_row = first_row + of < p.m ? i64{first_row} + of : -1;
        copy(at, p.x, p.x_pitch, x_row, k + part * 8);
        copy(at + kFactor, p.weight, p.weight_pitch, weight_row(of), k + part * 8);
      }
    }
    copies_commit();
  }

  __device__ __forceinline__ void multiply(Sums& sum, u32 at) const {
#pragma unroll
    for (u32 k = 0; k < kDepth * 2; k += 32) {
      u32 left[kRowTiles][4];
#pragma unroll
      for (u32 i = 0; i < kRowTiles; ++i) {
        load_matrices(at + (row + i * 16 + lane % 16) * kPitch + k + lane / 16 * 16, left[i]);
      }
#pragma unroll
      for (u32 j = 0; j < kLineTiles; j += 2) {
        u32 right[4];
        const u32 of = line + j * 8 + lane / 16 * 8 + lane % 8;
        load_matrices(at + kFactor + of * kPitch + k + lane / 8 % 2 * 16, right);
#pragma unroll
        for (u32 i = 0; i < kRowTiles * 2; ++i)
          add(sum[i / 2], j + i % 2, left[i / 2], right[i % 2 * 2], right[i % 2 * 2 + 1]);
      }
    }
  }

  __device__ __forceinline__ static void add(float (&sum)[kLineTiles * 4], u32 tile, const u32 (&left)[4], u32 low,
                                             u32 high) {
    float (&of)[4] = *reinterpret_cast<float (*)[4]>(sum + tile * 4);
    if constexpr (T::kIsHalf) {
      multiply_half(of, left, low, high);
    } else {
      multiply_bfloat(of, left, low, high);
    }
  }

  __device__ __forceinline__ void finish(const Sums& sum) const {
    const EpilogueParams to = {p.y,          p.bias,        p.y_pitch, static_cast<u32>(p.m), static_cast<u32>(p.n),
                               p.activation, p.vectors != 0};
    const Epilogue<T> end{to, shared + threadIdx.x / 32 * Epilogue<T>::kWarpBytes};
    const u32 column = first_column + line / kLines * kResults;
    __syncthreads();  // the stages are no longer read
    if constexpr (kGated) {
      end.run_gated(sum, first_row + row, column, 16);
    } else {
      end.run(sum, first_row + row, column, 16);
    }
  }

  __device__ __forceinline__ void run() const {
    const u32 steps = static_cast<u32>((p.k + kDepth - 1) / kDepth);
    Sums sum = {};
    allow_next_kernel();
    wait_for_previous_kernel();
#pragma unroll
    for (u32 step = 0; step + 1 < kStages; ++step) fetch(step);
#pragma unroll 1
    for (u32 step = 0; step < steps; ++step) {
      copies_wait<kStages - 2>();
      __syncthreads();  // all have what came, and have left the stage that is next
      fetch(step + kStages - 1);
      multiply(sum, shared + step % kStages * (2 * kFactor));
    }
    copies_wait<0>();
    finish(sum);
  }
};

}  // namespace kw

#endif
