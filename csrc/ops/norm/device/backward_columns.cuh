// SPDX-License-Identifier: MIT
// Sums over few rows: what norm_backward_few() has read of them is still in L2, and is read again, by columns.
#pragma once

#include "device/element.cuh"
#include "ops/norm/device/backward_finish.cuh"

namespace kw {

// A block has `lanes` units of columns; its threads beside each other in a unit have every so many-th row.
template <class T, bool kCentered>
class BackwardColumns {
  using Piece = Unit<T, 16>;
  static constexpr int kCount = Piece::kCount;
  static constexpr int kAhead = 4;  // rows on their way at once

  const KwNormColumnsParams& p;
  const u32 unit, side, row;
  Piece dy[kAhead], h[kAhead];
  float dweight[kCount] = {}, dbias[kCount] = {};

 public:
  __device__ __forceinline__ explicit BackwardColumns(const KwNormColumnsParams& params)
      : p(params),
        unit(blockIdx.x * params.lanes + threadIdx.x % params.lanes),
        side(blockDim.x / params.lanes),
        row(threadIdx.x / params.lanes) {}

  // dy and h were there before the kernel that this one waits for let it begin.
  __device__ __forceinline__ void run(float* sums) {
    fetch(row);
    wait_for_previous_kernel();
    for (u32 at = row; at < p.rows;) {
      add(at);
      at += kAhead * side;
      fetch(at);
    }
    across_lanes(dweight);
    if constexpr (kCentered) across_lanes(dbias);
    leave(sums);
  }

 private:
  __device__ __forceinline__ void fetch(u32 at) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i, at += side) {
      dy[i].clear(), h[i].clear();
      if (at >= p.rows || unit >= p.cols / kCount) continue;
      load_from_l2(p.dy + at * p.dy_pitch + unit * 16, dy[i].word);
      load_from_l2(p.h + at * p.h_pitch + unit * 16, h[i].word);
    }
  }

  __device__ __forceinline__ void add(u32 at) {
    float mean[kAhead], rstd[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i, at += side) {
      mean[i] = rstd[i] = 0.0f;
      if (at >= p.rows) continue;
      if constexpr (kCentered) {
        const float2 both = reinterpret_cast<const float2*>(p.statistics)[at];
        mean[i] = both.x, rstd[i] = both.y;
      } else {
        rstd[i] = p.statistics[at];
      }
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      float y[kCount], x[kCount];
      dy[i].unpack(y);
      h[i].unpack(x);
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        dweight[j] = fmaf(y[j] * rstd[i], kCentered ? x[j] - mean[i] : x[j], dweight[j]);
        if constexpr (kCentered) dbias[j] += y[j];
      }
    }
  }

  // Those of a warp that have the same columns.
  __device__ __forceinline__ void across_lanes(float (&sum)[kCount]) const {
#pragma unroll
    for (u32 mask = kWarp / 2; mask > 0; mask /= 2) {
      if (mask < p.lanes) break;
#pragma unroll
      for (int i = 0; i < kCount; ++i) sum[i] += shuffle_xor(sum[i], mask);
    }
  }

  // The block's sums, warp after warp: for dweight, then for dbias.
  __device__ __forceinline__ void leave(float* sums) const {
    const u32 columns = p.lanes * kCount, all = kCentered ? 2 * columns : columns;
    const u32 lane = threadIdx.x % kWarp;
    if (lane < p.lanes) {
      float* to = sums + threadIdx.x / kWarp * all + lane * kCount;
#pragma unroll
      for (int i = 0; i < kCount; ++i) to[i] = dweight[i];
#pragma unroll
      for (int i = 0; kCentered && i < kCount; ++i) to[columns + i] = dbias[i];
    }
    __syncthreads();
    if (threadIdx.x >= all) return;
    float total = 0.0f;
    for (u32 warp = 0; warp < blockDim.x / kWarp; ++warp) total += sums[warp * all + threadIdx.x];
    char* to = threadIdx.x < columns ? p.dweight : p.dbias;
    const u32 column = blockIdx.x * columns + threadIdx.x % columns;
    if (to != nullptr && column < p.cols) store_sum(to, column, total, p.sums_kind);
  }
};

template <class T, bool kCentered>
__device__ __forceinline__ void norm_backward_columns(const KwNormColumnsParams& p) {
  constexpr u32 kMostLanes = 4, kMost = kMostLanes * 16 / T::kSize * (kCentered ? 2 : 1);
  __shared__ float sums[kMaxWarps / 2 * kMost];
  allow_next_kernel();
  BackwardColumns<T, kCentered>(p).run(sums);
}

}  // namespace kw
