// SPDX-License-Identifier: MIT
// Rows with a residual, of four elements a lane of a warp, that begin on four elements. Little is done with such a row,
// so instructions count: weight and bias are made float32 once for all rows of a warp, which follow each other.
#pragma once

#include "ops/norm/device/common.cuh"

namespace kw {

// The sum over the warp of each of several numbers.
template <int kCount>
__device__ __forceinline__ void warp_sums(float (&value)[kCount]) {
#pragma unroll
  for (u32 mask = kWarp / 2; mask > 0; mask /= 2) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) value[i] += shuffle_xor(value[i], mask);
  }
}

template <bool kCentered, class T, int kRows>
__device__ __forceinline__ void norm_thin(const Params& p) {
  constexpr int kCount = 4, kBytes = kCount * T::kSize;
  using Piece = Unit<T, kBytes>;

  allow_next_kernel();
  wait_for_previous_kernel();
  const u32 lane = threadIdx.x % kWarp, column = lane * kCount;
  const i64 first = (static_cast<i64>(blockIdx.x) * (blockDim.x / kWarp) + threadIdx.x / kWarp) * kRows;
  const i64 left = p.rows - first;
  const bool mine = column < static_cast<u32>(p.cols);
  const int rows = !mine ? 0 : left < kRows ? static_cast<int>(left) : kRows;  // this lane has a piece of
  auto row_of = [&](auto* tensor, i64 pitch) { return tensor + first * pitch + lane * kBytes; };

  Piece in[kRows], add[kRows];
  const char *x = row_of(p.x, p.x_pitch), *residual = row_of(p.residual, p.residual_pitch);
#pragma unroll
  for (int s = 0; s < kRows; ++s) {
    in[s].clear(), add[s].clear();
    if (s < rows) load<kBytes>(x + s * p.x_pitch, in[s].word);
    if (s < rows) load<kBytes>(residual + s * p.residual_pitch, add[s].word);
  }
  float weight[kCount] = {1.0f, 1.0f, 1.0f, 1.0f}, bias[kCount] = {};
  if (mine) {
    Columns<kCentered, T, kBytes> own;
    own.load(p, column);
    each_of<T, kBytes, false>(p.weight, p.weight_kind, column, own.weight, [&](int i, float w) { weight[i] = w; });
    if constexpr (kCentered) {
      each_of<T, kBytes, false>(p.bias, p.bias_kind, column, own.bias, [&](int i, float b) { bias[i] = b; });
    }
  }

  float h[kRows][kCount], total[kRows], total_squares[kRows];
  char* sum = row_of(p.sum, p.sum_pitch);
#pragma unroll
  for (int s = 0; s < kRows; ++s) {
    float r[kCount];
    in[s].unpack(h[s]);
    add[s].unpack(r);
    add_to(h[s], r);
    if (s < rows) store_unit<T, kBytes>(sum + s * p.sum_pitch, h[s]);
    total[s] = sum_of(h[s]);
  }
  if constexpr (kCentered) {
    warp_sums(total);
#pragma unroll
    for (int s = 0; s < kRows; ++s) {
      total[s] *= p.inverse_cols;
      subtract(h[s], total[s]);
    }
  }
#pragma unroll
  for (int s = 0; s < kRows; ++s) total_squares[s] = !kCentered || mine ? squares(h[s]) : 0.0f;
  warp_sums(total_squares);

  char* y = row_of(p.y, p.y_pitch);
#pragma unroll
  for (int s = 0; s < kRows; ++s) {
    if (s >= rows) break;
    const Statistics of_row = {total[s], rsqrt_approx(fmaf(total_squares[s], p.inverse_cols, p.eps))};
    if (lane == 0) store_statistics<kCentered>(p, first + s, of_row);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      h[s][i] = kCentered ? fmaf(h[s][i] * of_row.rstd, weight[i], bias[i]) : h[s][i] * of_row.rstd * weight[i];
    }
    store_unit<T, kBytes>(y + s * p.y_pitch, h[s]);
  }
}

}  // namespace kw
