// SPDX-License-Identifier: MIT
// Rows read once and then held in registers: a row is a warp's, a block's or a cluster's.
#pragma once

#include "ops/norm/device/edge.cuh"

namespace kw {

// kUnits: of a thread, at most.
template <bool kCentered, class T, bool kAdd, bool kShifted, int kUnits>
__device__ __forceinline__ void norm_row(const Params& p) {
  using Vector = Unit<T, 16>;
  constexpr int kCount = Vector::kCount;
  __shared__ typename Tally<kCentered>::Scratch scratch;

  begin<true>(p, scratch);
  const Place at = place_in_rows(p);
  if (at.row >= p.rows) return;  // whole warps only: rows of blocks and clusters are never past the end
  const Span span = kShifted ? span_of<T>(p, at.row) : Span{0, static_cast<u32>(p.cols) / kCount};
  const u32 head = span.head, units = span.units;
  // A warp's units lie together: memory is faster in longer runs.
  const u32 slots = p.slots, first = at.thread / kWarp * kWarp * slots + at.thread % kWarp;
  const u32 offset = head * T::kSize + first * 16;
  constexpr u32 kStride = kWarp * 16;
  auto has = [&](int slot) { return slot < slots && first + slot * kWarp < units; };

  const u64 policy = l2_policy(p.keep);
  Vector in[kUnits], add[kUnits];
  const char* x = row_at(p.x, at.row, p.x_pitch, offset);
  const char* residual = kAdd ? row_at(p.residual, at.row, p.residual_pitch, offset) : nullptr;
#pragma unroll
  for (int s = 0; s < kUnits; ++s) {
    in[s].clear(), add[s].clear();
    if (!kShifted || p.alike) {
      if (has(s)) load_vector(x + s * kStride, in[s].word, policy);
      if (kAdd && has(s)) load_vector(residual + s * kStride, add[s].word, policy);
    }
  }
  Edge<T> edge;
  if constexpr (kShifted) {
#pragma unroll
    for (int s = 0; s < kUnits; ++s) {
      if (p.alike || !has(s)) break;
      load_unaligned<T::kSize>(x + s * kStride, in[s].word);
      if constexpr (kAdd) load_unaligned<T::kSize>(residual + s * kStride, add[s].word);
    }
    edge.find(at.thread, span, p.cols);
    edge.read(p, at.row, kAdd);
  }
  // The first columns are on their way while the statistics are made: where rows are few, they are all of them.
  Columns<kCentered, T, 16, kShifted> columns;
  const u32 column = head + first * kCount;
  constexpr bool kSoon = !kShifted && !(kCentered && kAdd);  // else registers do not suffice
  if (kSoon && has(0)) columns.load(p, column);

  auto unpack = [&](int slot, float (&h)[kCount]) {
    in[slot].unpack(h);
    if constexpr (kAdd) {
      float r[kCount];
      add[slot].unpack(r);
      add_to(h, r);
    }
  };
  Tally<kCentered> tally;
  char* sum = kAdd ? row_at(p.sum, at.row, p.sum_pitch, offset) : nullptr;
#pragma unroll
  for (int s = 0; s < kUnits; ++s) {
    if (s >= slots) break;
    float h[kCount];
    unpack(s, h);
    if constexpr (kAdd) {
      if (has(s)) store_anyhow<T>(sum + s * kStride, !kShifted || p.alike, h);
    }
    if (s == 0) tally.begin(h);
    if (!kCentered || has(s)) tally.take(h);  // zeros add nothing to a sum of squares
  }
  if (!kSoon && !kShifted && has(0)) columns.load(p, column);
  if (kShifted && edge.column >= 0) tally.take(edge.h);
  const Statistics of_row = tally.template of_row<true>(p, scratch);
  if (at.thread == 0) store_statistics<kCentered>(p, at.row, of_row);

  char* y = row_at(p.y, at.row, p.y_pitch, offset);
#pragma unroll
  for (int s = 0; s < kUnits; ++s) {
    if (!has(s)) break;
    const u32 begins = column + s * (kWarp * kCount);
    if (kShifted || s > 0) columns.load(p, begins);
    float h[kCount];
    unpack(s, h);
    normalise(p, of_row, begins, columns, h);
    store_unit<T, 16>(y + s * kStride, h);
  }
  if constexpr (kShifted) edge.template finish<kCentered>(p, at.row, of_row);
}

}  // namespace kw
