// SPDX-License-Identifier: MIT
// Derivatives of a norm where rows are few, in two kernels. In the first a row is a block's, which reads it once. What
// is summed over several rows the second makes, which reads them again, by columns: they are still in L2. One row's
// sums the first makes itself.
#pragma once

#include "device/element.cuh"
#include "ops/norm/device/backward_reduce.cuh"
#include "ops/norm/device/common.cuh"
#include "ops/norm/device/partials.cuh"

namespace kw {

template <class T, bool kCentered>
class FewRow {
  using Piece = Unit<T, 16>;
  static constexpr int kCount = Piece::kCount;
  static constexpr int kSlots = kFewSlots;  // units of a thread, at most

  const KwNormBackwardParams& p;
  const u32 units, slots;
  u32 first;  // this thread's first unit; a warp's lie together
  Piece dy[kSlots], h[kSlots], add[kSlots];
  Piece weight[kSlots];  // where it is of their type

 public:
  __device__ __forceinline__ explicit FewRow(const KwNormBackwardParams& params)
      : p(params), units(params.cols / kCount), slots(units > blockDim.x ? kSlots : 1) {
    first = threadIdx.x / kWarp * kWarp * slots + threadIdx.x % kWarp;
  }

  __device__ __forceinline__ void run(RowMoments<kCentered>* of_warps) {
    read();
    const RowMoments<kCentered> sums = row_sums(of_warps);
    const Slopes slopes = slopes_of(sums, p, true, [] { return static_cast<i64>(blockIdx.x); });
    write(slopes);
    if (p.statistics == nullptr || threadIdx.x != 0) return;
    if constexpr (kCentered) {
      reinterpret_cast<float2*>(p.statistics)[blockIdx.x] = {slopes.mean, slopes.rstd};
    } else {
      p.statistics[blockIdx.x] = slopes.rstd;
    }
  }

 private:
  __device__ __forceinline__ bool has(int slot) const {
    return static_cast<u32>(slot) < slots && first + slot * kWarp < units;
  }

  // All of it at once: where there is little to do, what is waited for is the memory.
  __device__ __forceinline__ void read() {
    const i64 row = blockIdx.x;
    const char *of_dy = p.dy + row * p.dy_pitch, *of_h = p.h + row * p.h_pitch, *of_dsum = p.dsum + row * p.dsum_pitch;
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
      dy[s].clear(), h[s].clear(), add[s].clear();
      if (!has(s)) continue;
      const u32 unit = first + s * kWarp;
      load<16>(of_h + unit * 16, h[s].word);
      load<16>(of_dy + unit * 16, dy[s].word);
      if (p.weight_kind == KW_WEIGHT_LIKE_X) load<16>(p.weight + unit * 16, weight[s].word);
      if (p.dsum != nullptr) load<16>(of_dsum + unit * 16, add[s].word);
    }
  }

  // dy * weight.
  __device__ __forceinline__ void weigh(int slot, float (&y)[kCount]) const {
    if (!has(slot)) return;
    const u32 column = (first + slot * kWarp) * kCount;
    each_of<T, 16>(p.weight, p.weight_kind, column, weight[slot], [&](int i, float w) { y[i] *= w; });
  }

  __device__ __forceinline__ float columns_of(u32 warp) const {
    const u32 begin = warp * kWarp * slots, most = kWarp * slots, left = begin < units ? units - begin : 0;
    return static_cast<float>((left < most ? left : most) * kCount);
  }

  __device__ __forceinline__ RowMoments<kCentered> row_sums(RowMoments<kCentered>* of_warps) {
    const u32 lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
    float pivot = 0.0f;
    if constexpr (kCentered) {
      float x[kCount];
      h[0].unpack(x);
      pivot = shuffle_from(((x[0] + x[1]) + (x[2] + x[3])) * 0.25f, 0);
    }
    Sums<kCentered> sums;
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
      float y[kCount], x[kCount];
      dy[s].unpack(y);
      weigh(s, y);

      h[s].unpack(x);
      const float center = has(s) ? pivot : 0.0f;
#pragma unroll
      for (int i = 0; i < kCount; ++i) sums.add(y[i], kCentered ? x[i] - center : x[i]);
    }
#pragma unroll
    for (u32 mask = kWarp / 2; mask > 0; mask /= 2) sums.exchange(mask, kWarp);
    const float count = kCentered ? columns_of(warp) : 0.0f;
    const RowMoments<kCentered> mine = sums.moments(pivot, kCentered ? reciprocal_approx(count) : 0.0f);
    if (warps == 1) return mine;
    if (lane == 0) of_warps[warp] = mine;
    __syncthreads();
    Sums<kCentered> all;
    if constexpr (kCentered) pivot = of_warps[0].mean;
    if (lane < warps) all.add(of_warps[lane], kCentered ? columns_of(lane) : 0.0f, pivot);
#pragma unroll
    for (u32 mask = kWarp / 2; mask > 0; mask /= 2) all.exchange(mask, kWarp);
    return all.moments(pivot, p.inverse_cols);
  }

  __device__ __forceinline__ void write(const Slopes& of) {
    char* dx = p.dx + static_cast<i64>(blockIdx.x) * p.dx_pitch;
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
      if (!has(s)) continue;
      const u32 unit = first + s * kWarp;
      compute_anew(dy[s].word), compute_anew(h[s].word), compute_anew(weight[s].word);
      float y[kCount], x[kCount], other[kCount];
      dy[s].unpack(y);
      h[s].unpack(x);
#pragma unroll
      for (int i = 0; i < kCount; ++i) other[i] = y[i] * of.rstd * (x[i] -= of.mean);
      if (p.dweight != nullptr) store_sums(p.dweight, unit, other);
      if (kCentered && p.dbias != nullptr) store_sums(p.dbias, unit, y);
      weigh(s, y);
      add[s].unpack(other);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        other[i] = fmaf(-x[i], of.slope, fmaf(y[i], of.rstd, other[i] - of.shift));
      }
      store_unit<T, 16>(dx + unit * 16, other);
    }
  }

  __device__ __forceinline__ void store_sums(char* to, u32 unit, const float (&sum)[kCount]) const {
    if (T::kSize < 4 && p.sums_kind != KW_SUMS_FLOAT32) {
      Piece piece;
      piece.pack(sum);
      store<16>(to + unit * 16, piece.word);
      return;
    }
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
      Unit<Float32, 16> piece;
      piece.pack(sum + i);
      store<16>(to + (unit * kCount + i) * 4, piece.word);
    }
  }
};

template <class T, bool kCentered>
__device__ __forceinline__ void norm_few_rows(const KwNormBackwardParams& p) {
  __shared__ RowMoments<kCentered> of_warps[kMaxWarps];
  // The kernel after this one reads dy and h before this one has ended, so it may not begin before they are there.
  if (p.statistics == nullptr) allow_next_kernel();
  wait_for_previous_kernel();
  if (p.statistics != nullptr) allow_next_kernel();
  FewRow<T, kCentered>(p).run(of_warps);
}

// A block has `lanes` units of columns; its threads beside each other in a unit have every so many-th row.
template <class T, bool kCentered>
class BackwardColumns {
  using Piece = Unit<T, 16>;
  static constexpr int kCount = Piece::kCount;
  static constexpr int kAhead = kFewColumnsAhead;  // rows on their way at once

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
__device__ __forceinline__ void norm_few_rows_columns(const KwNormColumnsParams& p) {
  constexpr u32 kMostLanes = 4, kMost = kMostLanes * 16 / T::kSize * (kCentered ? 2 : 1);
  __shared__ float sums[kMaxWarps / 2 * kMost];
  allow_next_kernel();
  BackwardColumns<T, kCentered>(p).run(sums);
}

}  // namespace kw
