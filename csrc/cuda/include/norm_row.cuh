// SPDX-License-Identifier: MIT
// Rows read once and then held in registers: a row is a warp's, a block's or a cluster's.
#pragma once

#include "norm_common.cuh"

namespace kw {

// The part of a row that is done in whole units: where it begins, in elements, and how many they are. Where what is
// read may begin anywhere, so much is left at the end that the aligned vectors around a unit are the row's or before
// it.
struct Span {
  u32 head;
  u32 units;
};

template <class T, bool kShifted>
__device__ __forceinline__ Span span_of(const Params& p, i64 row) {
  constexpr u32 kCount = 16 / T::kSize;
  const u32 cols = p.cols;
  if constexpr (!kShifted) return {0, cols / kCount};
  const u32 off = -static_cast<u32>(reinterpret_cast<u64>(p.x) + row * p.x_pitch) & 15u;
  const u32 head = off / T::kSize < cols ? off / T::kSize : cols;
  const u32 left = cols - head;
  return {head, left < kCount ? 0 : (left - (kCount - 1)) / kCount};
}

// One element, for the ends of a shifted row: fewer than a unit's before the first unit, one for each thread from 0
// on, and fewer than two units' after the last, one for each thread from kSplit on.
template <class T, bool kAdd>
struct Edge {
  int column = -1;
  float h[1] = {0.0f};

  static constexpr u32 kSplit = 16 / T::kSize;

  __device__ __forceinline__ void find(u32 thread, const Span& span, u32 cols) {
    const u32 tail = cols - span.head - span.units * kSplit;
    if (thread < span.head) column = thread;
    if (thread >= kSplit && thread - kSplit < tail) column = cols - tail + thread - kSplit;
  }

  __device__ __forceinline__ void read(const Params& p, i64 row) {
    if (column < 0) return;
    const u32 offset = column * T::kSize;
    Unit<T, T::kSize> unit;
    load<T::kSize>(p.x + row * p.x_pitch + offset, unit.word);
    unit.unpack(h);
    if constexpr (kAdd) {
      float r;
      load<T::kSize>(p.residual + row * p.residual_pitch + offset, unit.word);
      unit.unpack(&r);
      h[0] += r;
      store_unit<T, T::kSize>(p.sum + row * p.sum_pitch + offset, h);
    }
  }

  template <bool kCentered>
  __device__ __forceinline__ void finish(const Params& p, i64 row, const Statistics& of_row) {
    if (column < 0) return;
    Columns<kCentered, T, T::kSize> columns;
    columns.load(p, column);
    normalise(p, of_row, column, columns, h);
    store_unit<T, T::kSize>(p.y + row * p.y_pitch + column * T::kSize, h);
  }
};

template <bool kCentered, class T, bool kAdd, bool kShifted>
__device__ __forceinline__ void norm_row(const Params& p) {
  using Vector = Unit<T, 16>;
  constexpr int kCount = Vector::kCount;
  __shared__ typename Tally<kCentered>::Scratch scratch;

  begin<true>(p, scratch);
  const Place at = place_in_rows(p);
  if (at.row >= p.rows) return;  // whole warps only: rows of blocks and clusters are never past the end
  const Span span = span_of<T, kShifted>(p, at.row);
  const u32 head = span.head, units = span.units;
  Edge<T, kAdd> edge;
  if constexpr (kShifted) {
    edge.find(at.thread, span, p.cols);
    edge.read(p, at.row);
  }
  // A warp's units lie together: memory is faster in longer runs.
  const u32 slots = p.slots, first = at.thread / kWarp * kWarp * slots + at.thread % kWarp;
  const u32 offset = head * T::kSize + first * 16;
  constexpr u32 kStride = kWarp * 16;
  auto has = [&](int slot) { return slot < slots && first + slot * kWarp < units; };

  const u64 policy = l2_policy(p.large);
  Vector in[kSlots], add[kSlots];
  const char* x = row_at(p.x, at.row, p.x_pitch, offset);
  const char* residual = kAdd ? row_at(p.residual, at.row, p.residual_pitch, offset) : nullptr;
#pragma unroll
  for (int s = 0; s < kSlots; ++s) {
    in[s].clear();
    if (has(s)) load_vector(x + s * kStride, in[s].word, policy);
    if constexpr (kAdd) {
      add[s].clear();
      if (has(s)) load_vector(residual + s * kStride, add[s].word, policy);
    }
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
  for (int s = 0; s < kSlots; ++s) {
    if (s >= slots) break;
    float h[kCount];
    unpack(s, h);
    if constexpr (kAdd) {
      if (has(s)) store_unit<T, 16>(sum + s * kStride, h);
    }
    if (!kCentered || has(s)) tally.take(h);  // zeros add nothing to a sum of squares
  }
  if (!kSoon && !kShifted && has(0)) columns.load(p, column);
  if (kShifted && edge.column >= 0) tally.take(edge.h);
  const Statistics of_row = tally.template of_row<true>(p, scratch);
  if (at.thread == 0) store_statistics<kCentered>(p, at.row, of_row);

  char* y = row_at(p.y, at.row, p.y_pitch, offset);
#pragma unroll
  for (int s = 0; s < kSlots; ++s) {
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
