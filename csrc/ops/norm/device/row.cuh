// SPDX-License-Identifier: MIT
// Rows on 16 bytes, read once and then held in registers (norm_row), or read twice, the second time from cache
// (norm_stream). A row is a warp's, a block's or a cluster's. What a block cannot hold is read again, where there are
// no clusters.
#pragma once

#include "ops/norm/device/common.cuh"

namespace kw {

// Vectors of a row on 16 bytes, each of which a thread reads when it wants it: x, or the sum of x and the residual.
template <class T, bool kMayAdd>
__device__ __forceinline__ void read_sum(const Params& p, i64 row, u32 unit, float (&h)[Unit<T, 16>::kCount]) {
  Unit<T, 16> vector;
  load<16>(row_at(p.x, row, p.x_pitch, unit * 16), vector.word);
  vector.unpack(h);
  if (!kMayAdd || p.residual == nullptr) return;
  float r[Unit<T, 16>::kCount];
  load<16>(row_at(p.residual, row, p.residual_pitch, unit * 16), vector.word);
  vector.unpack(r);
  add_to(h, r);
}

// A thread holds up to kUnits vectors. kMayAdd: there may be a residual, which takes half of them.
template <bool kCentered, class T, bool kMayAdd, int kUnits>
__device__ __forceinline__ void norm_row(const Params& p) {
  using Vector = Unit<T, 16>;
  constexpr int kCount = Vector::kCount, kSums = kMayAdd ? kUnits / 2 : kUnits;
  constexpr u32 kStride = kWarp * 16;
  __shared__ typename Tally<kCentered>::Scratch scratch;

  begin<true>(p, scratch);
  const Place at = place_in_rows(p);
  if (at.row >= p.rows) return;  // whole warps only: rows of blocks and clusters are never past the end
  const bool adds = kMayAdd && p.residual != nullptr;
  // A warp's units lie together: memory is faster in longer runs.
  const u32 units = static_cast<u32>(p.cols) / kCount, slots = p.slots;
  const u32 first = at.thread / kWarp * kWarp * slots + at.thread % kWarp;
  auto has = [&](int slot) { return slot < slots && first + slot * kWarp < units; };

  const u64 policy = l2_policy(p.keep);
  Vector in[kUnits];  // x, then the residual
  const char* x = row_at(p.x, at.row, p.x_pitch, first * 16);
  const char* residual = kMayAdd ? row_at(p.residual, at.row, p.residual_pitch, first * 16) : nullptr;
#pragma unroll
  for (int s = 0; s < kUnits; ++s) {
    in[s].clear();
    if (s >= kSums && adds) {
      if (has(s - kSums)) load_vector(residual + (s - kSums) * kStride, in[s].word, policy);
    } else if (has(s)) {
      load_vector(x + s * kStride, in[s].word, policy);
    }
  }
  // The first columns are on their way while the statistics are made: where rows are few, they are all of them.
  Columns<kCentered, T, 16> columns;
  const u32 column = first * kCount;
  constexpr bool kSoon = !(kCentered && kMayAdd);  // else registers do not suffice
  if (kSoon && has(0)) columns.load(p, column);

  auto unpack = [&](int slot, float (&h)[kCount]) {
    in[slot].unpack(h);
    if (!kMayAdd || slot >= kSums || !adds) return;
    float r[kCount];
    in[(slot + kSums) % kUnits].unpack(r);
    add_to(h, r);
  };
  Tally<kCentered> tally;
  char* sum = kMayAdd ? row_at(p.sum, at.row, p.sum_pitch, first * 16) : nullptr;
#pragma unroll
  for (int s = 0; s < kUnits; ++s) {
    if (s >= slots) break;
    float h[kCount];
    unpack(s, h);
    if (kMayAdd && s < kSums && adds && has(s)) store_unit<T, 16>(sum + s * kStride, h);
    if (s == 0) tally.begin(h);
    if (!kCentered || has(s)) tally.take(h);  // zeros add nothing to a sum of squares
  }
#ifndef KW_HAS_CLUSTER
#pragma unroll 1
  for (u32 unit = at.threads * slots + at.thread; kMayAdd && unit < units; unit += at.threads) {
    float h[kCount];
    read_sum<T, kMayAdd>(p, at.row, unit, h);
    tally.take(h);
  }
#endif
  if (!kSoon && has(0)) columns.load(p, column);
  const Statistics of_row = tally.template of_row<true>(p, scratch);
  if (at.thread == 0) store_statistics<kCentered>(p, at.row, of_row);

  char* y = row_at(p.y, at.row, p.y_pitch, first * 16);
#pragma unroll
  for (int s = 0; s < kUnits; ++s) {
    if (!has(s)) break;
    const u32 begins = column + s * (kWarp * kCount);
    if (s > 0) columns.load(p, begins);
    float h[kCount];
    unpack(s, h);
    normalise(p, of_row, begins, columns, h);
    store_unit<T, 16>(y + s * kStride, h);
  }
#ifndef KW_HAS_CLUSTER
#pragma unroll 1
  for (u32 unit = at.threads * slots + at.thread; kMayAdd && unit < units; unit += at.threads) {
    float h[kCount];
    read_sum<T, kMayAdd>(p, at.row, unit, h);
    if (adds) store_unit<T, 16>(row_at(p.sum, at.row, p.sum_pitch, unit * 16), h);
    columns.load(p, unit * kCount);
    normalise(p, of_row, unit * kCount, columns, h);
    store_unit<T, 16>(row_at(p.y, at.row, p.y_pitch, unit * 16), h);
  }
#endif
}

// A row is a block's.
template <bool kCentered, class T>
__device__ __forceinline__ void norm_stream(const Params& p) {
  using Vector = Unit<T, 16>;
  constexpr int kCount = Vector::kCount, kPieces = 2;
  __shared__ typename Tally<kCentered>::Scratch scratch;

  begin<false>(p, scratch);
  const Place at = place_in_rows(p);
  const u32 units = static_cast<u32>(p.cols) / kCount;
  const char* x = row_at(p.x, at.row, p.x_pitch, 0);

  Tally<kCentered> tally;
  // Whole warps go round together: the first time they agree on where their tally begins.
  for (u32 begin = at.thread; any_of_warp(begin < units); begin += at.threads * kPieces) {
    Vector in[kPieces];
#pragma unroll
    for (int s = 0; s < kPieces; ++s) {
      const u32 unit = begin + s * at.threads;
      in[s].clear();
      if (unit < units) load_to_keep(x + unit * 16, in[s].word);
    }
#pragma unroll
    for (int s = 0; s < kPieces; ++s) {
      float h[kCount];
      in[s].unpack(h);
      if (s == 0 && begin == at.thread) tally.begin(h);
      if (!kCentered || begin + s * at.threads < units) tally.take(h);  // zeros add nothing to a sum of squares
    }
  }
  const Statistics of_row = tally.template of_row<false>(p, scratch);
  if (at.thread == 0) store_statistics<kCentered>(p, at.row, of_row);

  // Backwards: what was read last is still nearest.
  char* y = row_at(p.y, at.row, p.y_pitch, 0);
  for (u32 done = (units + at.threads - 1) / at.threads; done > 0; --done) {
    const u32 unit = at.thread + (done - 1) * at.threads;
    if (unit >= units) continue;
    Vector in;
    load_kept(x + unit * 16, in.word);
    float h[kCount];
    const u32 column = unit * kCount;
    Columns<kCentered, T, 16> columns;
    columns.load(p, column);
    in.unpack(h);
    normalise(p, of_row, column, columns, h);
    store_unit<T, 16>(y + unit * 16, h);
  }
}

}  // namespace kw
