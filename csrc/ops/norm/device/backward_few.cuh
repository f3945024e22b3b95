// SPDX-License-Identifier: MIT
// Derivatives of a norm where rows are few: a row is a block's, which reads it once. What is summed over several rows
// the kernel after this one makes (backward_columns.cuh); one row's it is itself.
#pragma once

#include "device/element.cuh"
#include "ops/norm/device/backward_moments.cuh"
#include "ops/norm/device/common.cuh"

namespace kw {

template <class T, bool kCentered>
class FewRow {
  using Piece = Unit<T, 16>;
  static constexpr int kCount = Piece::kCount;
  static constexpr int kSlots = 2;  // units of a thread, at most

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
    each_of<T, 16, false>(p.weight, p.weight_kind, column, weight[slot], [&](int i, float w) { y[i] *= w; });
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
__device__ __forceinline__ void norm_backward_few(const KwNormBackwardParams& p) {
  __shared__ RowMoments<kCentered> of_warps[kMaxWarps];
  // The kernel after this one reads dy and h before this one has ended, so it may not begin before they are there.
  if (p.statistics == nullptr) allow_next_kernel();
  wait_for_previous_kernel();
  if (p.statistics != nullptr) allow_next_kernel();
  FewRow<T, kCentered>(p).run(of_warps);
}

}  // namespace kw
