// SPDX-License-Identifier: MIT
// Rows read twice, the second time from cache: with few registers a thread, all warps of a multiprocessor read at once.
#pragma once

#include "ops/norm/device/edge.cuh"

namespace kw {

template <class T, bool kShifted>
__device__ __forceinline__ void load_first(const char* from, bool alike, Unit<T, 16>& unit) {
  if (alike) return load_to_keep(from, unit.word);
  if constexpr (kShifted) load_unaligned<T::kSize>(from, unit.word);
}

template <class T, bool kShifted>
__device__ __forceinline__ void load_again(const char* from, bool alike, Unit<T, 16>& unit) {
  if (alike) return load_kept(from, unit.word);
  if constexpr (kShifted) load_unaligned<T::kSize>(from, unit.word);
}

// Every element is read again by the thread that read it first, just before that thread writes there: the sum and
// the result may lie where the inputs do. kMayAdd: there may be a residual.
// kShifted: rows lie anyhow.
template <bool kCentered, class T, bool kMayAdd, bool kShifted>
__device__ __forceinline__ void norm_stream(const Params& p) {
  using Vector = Unit<T, 16>;
  constexpr int kCount = Vector::kCount, kPieces = 2;
  __shared__ typename Tally<kCentered>::Scratch scratch;

  begin<false>(p, scratch);
  const Place at = place_in_rows(p);
  if (at.row >= p.rows) return;
  const bool adds = kMayAdd && p.residual != nullptr, alike = !kShifted || p.alike;
  const Span span = kShifted ? span_of<T>(p, at.row) : Span{0, static_cast<u32>(p.cols) / kCount};
  const u32 units = span.units, offset = span.head * T::kSize;
  const char* x = row_at(p.x, at.row, p.x_pitch, offset);
  const char* residual = kMayAdd ? row_at(p.residual, at.row, p.residual_pitch, offset) : nullptr;
  auto add_up = [&](const Vector& in, const Vector& add, float (&h)[kCount]) {
    in.unpack(h);
    if constexpr (kMayAdd) {
      float r[kCount];
      add.unpack(r);
      add_to(h, r);
    }
  };

  Tally<kCentered> tally;
  // Whole warps go round together: the first time they agree on where their tally begins.
  for (u32 begin = at.thread; any_of_warp(begin < units); begin += at.threads * kPieces) {
    Vector in[kPieces], add[kPieces];
#pragma unroll
    for (int s = 0; s < kPieces; ++s) {
      const u32 unit = begin + s * at.threads;
      in[s].clear(), add[s].clear();
      if (unit < units) load_first<T, kShifted>(x + unit * 16, alike, in[s]);
      if (adds && unit < units) load_first<T, kShifted>(residual + unit * 16, alike, add[s]);
    }
#pragma unroll
    for (int s = 0; s < kPieces; ++s) {
      float h[kCount];
      add_up(in[s], add[s], h);
      if (s == 0 && begin == at.thread) tally.begin(h);
      if (!kCentered || begin + s * at.threads < units) tally.take(h);  // zeros add nothing to a sum of squares
    }
  }
  Edge<T> edge;
  if constexpr (kShifted) {
    edge.find(at.thread, span, p.cols);
    edge.read(p, at.row, adds);
    if (edge.column >= 0) tally.take(edge.h);
  }
  const Statistics of_row = tally.template of_row<false>(p, scratch);
  if (at.thread == 0) store_statistics<kCentered>(p, at.row, of_row);

  // Backwards: what was read last is still nearest.
  char* y = row_at(p.y, at.row, p.y_pitch, offset);
  char* sum = kMayAdd ? row_at(p.sum, at.row, p.sum_pitch, offset) : nullptr;
  for (u32 done = (units + at.threads - 1) / at.threads; done > 0; --done) {
    const u32 unit = at.thread + (done - 1) * at.threads;
    if (unit >= units) continue;
    Vector in, add;
    add.clear();
    load_again<T, kShifted>(x + unit * 16, alike, in);
    if (adds) load_again<T, kShifted>(residual + unit * 16, alike, add);
    float h[kCount];
    const u32 column = span.head + unit * kCount;
    Columns<kCentered, T, 16, kShifted> columns;
    columns.load(p, column);
    add_up(in, add, h);
    if (adds) store_anyhow<T>(sum + unit * 16, alike, h);
    normalise(p, of_row, column, columns, h);
    store_unit<T, 16>(y + unit * 16, h);
  }
  if constexpr (kShifted) edge.template finish<kCentered>(p, at.row, of_row);
}

}  // namespace kw
