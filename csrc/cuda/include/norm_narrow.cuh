// SPDX-License-Identifier: MIT
// Rows of at most one unit a lane: lanes of a warp share one and hold units of several.
#pragma once

#include "norm_common.cuh"

namespace kw {

// A warp holds several times as many rows as lie side by side in one of its loads, all of them adjacent.
// kMayAdd: there may be a residual.
template <class T, bool kMayAdd, int kBytes>
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
  float w[kCount];
  if (mine) load_weight<T, kBytes>(p, unit * kCount, w);

  auto unpack = [&](int slot, float (&h)[kCount]) {
    in[slot].unpack(h);
    if constexpr (kMayAdd) {
      float r[kCount];
      add[slot].unpack(r);
      add_to(h, r);
    }
  };
  float total[kRows];
#pragma unroll
  for (int s = 0; s < kRows; ++s) {
    float h[kCount];
    unpack(s, h);
    total[s] = squares(h);
    if (adds && has(s)) store_unit<T, kBytes>(p.sum + row(s) * p.sum_pitch + unit * kBytes, h);
  }
  for (u32 mask = group / 2; mask > 0; mask /= 2) {
#pragma unroll
    for (int s = 0; s < kRows; ++s) total[s] += shuffle_xor(total[s], mask);
  }

#pragma unroll
  for (int s = 0; s < kRows; ++s) {
    if (!has(s)) break;
    const float rstd = rstd_of(p, total[s]);
    if (unit == 0 && p.rstd != nullptr) p.rstd[row(s)] = rstd;
    float h[kCount];
    unpack(s, h);
    scale(h, rstd, w);
    store_unit<T, kBytes>(p.y + row(s) * p.y_pitch + unit * kBytes, h);
  }
}

}  // namespace kw
