// SPDX-License-Identifier: MIT
// Rows of at most one unit a lane: lanes of a warp share one and hold units of several.
#pragma once

#include "ops/norm/device/common.cuh"

namespace kw {

// A warp holds several times as many rows as lie side by side in one of its loads, all of them adjacent.
// kMayAdd: there may be a residual.
template <bool kCentered, class T, bool kMayAdd, int kBytes>
__device__ __forceinline__ void norm_narrow(const Params& p) {
  using Piece = Unit<T, kBytes>;
  constexpr int kCount = Piece::kCount;
  constexpr int kRows = kCount == 1 ? kScalarSlots : kSlots;

  allow_next_kernel();
  wait_for_previous_kernel();
  const bool adds = kMayAdd && p.residual != nullptr;
  const u32 group = p.group, lane = threadIdx.x % kWarp, unit = lane % group, side = kWarp / group;
  const i64 warp = static_cast<i64>(blockIdx.x) * (blockDim.x / kWarp) + threadIdx.x / kWarp;
  const i64 first = warp * (side * kRows) + lane / group;
  const bool mine = unit < static_cast<u32>(p.cols) / kCount;
  auto row = [&](int slot) { return first + slot * side; };
  auto has = [&](int slot) { return mine && row(slot) < p.rows; };

  Piece in[kRows], add[kRows];
#pragma unroll
  for (int s = 0; s < kRows; ++s) {
    in[s].clear(), add[s].clear();
    if (has(s)) load<kBytes>(p.x + row(s) * p.x_pitch + unit * kBytes, in[s].word);
    if (adds && has(s)) load<kBytes>(p.residual + row(s) * p.residual_pitch + unit * kBytes, add[s].word);
  }
  Columns<kCentered, T, kBytes> columns;
  if (mine) columns.load(p, unit * kCount);

  auto unpack = [&](int slot, float (&h)[kCount]) {
    in[slot].unpack(h);
    if constexpr (kMayAdd) {
      float r[kCount];
      add[slot].unpack(r);
      add_to(h, r);
    }
  };
  float origin[kRows] = {}, total[kRows] = {}, total_squares[kRows];
#pragma unroll
  for (int s = 0; s < kRows; ++s) {
    float h[kCount];
    unpack(s, h);
    if (adds && has(s)) store_unit<T, kBytes>(p.sum + row(s) * p.sum_pitch + unit * kBytes, h);
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
    store_unit<T, kBytes>(p.y + row(s) * p.y_pitch + unit * kBytes, h);
  }
}

}  // namespace kw
