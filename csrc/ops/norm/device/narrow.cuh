// SPDX-License-Identifier: MIT
// Narrow rows, of which a warp has several: those on 16 bytes, of at most one vector a lane; and those on four
// elements, of four a lane.
#pragma once

#include "ops/norm/device/common.cuh"

namespace kw {

// A warp holds several times as many rows as lie side by side in one of its loads, all of them adjacent.
template <bool kCentered, class T>
__device__ __forceinline__ void norm_narrow(const Params& p) {
  using Vector = Unit<T, 16>;
  constexpr int kCount = Vector::kCount, kRows = kRowSlots;

  allow_next_kernel();
  wait_for_previous_kernel();
  const bool adds = p.residual != nullptr;
  const u32 group = p.group, lane = threadIdx.x % kWarp, unit = lane % group, side = kWarp / group;
  const i64 warp = static_cast<i64>(blockIdx.x) * (blockDim.x / kWarp) + threadIdx.x / kWarp;
  const i64 first = warp * (side * kRows) + lane / group;
  const bool mine = unit < static_cast<u32>(p.cols) / kCount;
  auto row = [&](int slot) { return first + slot * side; };
  auto has = [&](int slot) { return mine && row(slot) < p.rows; };

  Vector in[kRows], add[kRows];
#pragma unroll
  for (int s = 0; s < kRows; ++s) {
    in[s].clear(), add[s].clear();
    if (has(s)) load<16>(p.x + row(s) * p.x_pitch + unit * 16, in[s].word);
    if (adds && has(s)) load<16>(p.residual + row(s) * p.residual_pitch + unit * 16, add[s].word);
  }
  Columns<kCentered, T, 16> columns;
  if (mine) columns.load(p, unit * kCount);

  auto unpack = [&](int slot, float (&h)[kCount]) {
    in[slot].unpack(h);
    if (!adds) return;
    float r[kCount];
    add[slot].unpack(r);
    add_to(h, r);
  };
  float origin[kRows] = {}, total[kRows] = {}, total_squares[kRows];
#pragma unroll
  for (int s = 0; s < kRows; ++s) {
    float h[kCount];
    unpack(s, h);
    if (adds && has(s)) store_unit<T, 16>(p.sum + row(s) * p.sum_pitch + unit * 16, h);
    if constexpr (kCentered) {
      origin[s] = shuffle_from(sum_of(h) * (1.0f / kCount), lane - unit);  // of the row's first unit
      subtract(h, origin[s]);
      total[s] = mine ? sum_of(h) : 0.0f;
    }
    total_squares[s] = !kCentered || mine ? squares(h) : 0.0f;
  }
  for (u32 mask = group / 2; mask > 0; mask /= 2) {
#pragma unroll
    for (int s = 0; s < kRows; ++s) {
      if (kCentered) total[s] += shuffle_xor(total[s], mask);
      total_squares[s] += shuffle_xor(total_squares[s], mask);
    }
  }

#pragma unroll
  for (int s = 0; s < kRows; ++s) {
    if (!has(s)) break;
    Statistics of_row = {0.0f, 0.0f};
    if constexpr (kCentered) {
      const Moments all = moments_of(static_cast<float>(p.cols), origin[s], total[s], total_squares[s]);
      of_row.mean = all.mean, total_squares[s] = all.m2;
    }
    of_row.rstd = rsqrt_approx(fmaf(total_squares[s], p.inverse_cols, p.eps));
    if (unit == 0) store_statistics<kCentered>(p, row(s), of_row);
    float h[kCount];
    unpack(s, h);
    normalise(p, of_row, unit * kCount, columns, h);
    store_unit<T, 16>(p.y + row(s) * p.y_pitch + unit * 16, h);
  }
}

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
__device__ __forceinline__ void norm_warp_row(const Params& p) {
  constexpr int kCount = kWarpRowColumns, kBytes = kCount * T::kSize;
  using Piece = Unit<T, kBytes>;

  allow_next_kernel();
  wait_for_previous_kernel();
  const u32 lane = threadIdx.x % kWarp, column = lane * kCount;
  const i64 first = (static_cast<i64>(blockIdx.x) * (blockDim.x / kWarp) + threadIdx.x / kWarp) * kRows;
  const i64 left = p.rows - first;
  const bool adds = p.residual != nullptr, mine = column < static_cast<u32>(p.cols);
  const int rows = !mine ? 0 : left < kRows ? static_cast<int>(left) : kRows;  // this lane has a piece of
  auto row_of = [&](auto* tensor, i64 pitch) { return tensor + first * pitch + lane * kBytes; };

  Piece in[kRows], add[kRows];
  const char *x = row_of(p.x, p.x_pitch), *residual = row_of(p.residual, p.residual_pitch);
#pragma unroll
  for (int s = 0; s < kRows; ++s) {
    in[s].clear(), add[s].clear();
    if (s < rows) load<kBytes>(x + s * p.x_pitch, in[s].word);
    if (adds && s < rows) load<kBytes>(residual + s * p.residual_pitch, add[s].word);
  }
  float weight[kCount] = {1.0f, 1.0f, 1.0f, 1.0f}, bias[kCount] = {};
  if (mine) {
    Columns<kCentered, T, kBytes> own;
    own.load(p, column);
    each_of<T, kBytes>(p.weight, p.weight_kind, column, own.weight, [&](int i, float w) { weight[i] = w; });
    if constexpr (kCentered) {
      each_of<T, kBytes>(p.bias, p.bias_kind, column, own.bias, [&](int i, float b) { bias[i] = b; });
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
    if (adds && s < rows) store_unit<T, kBytes>(sum + s * p.sum_pitch, h[s]);
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
