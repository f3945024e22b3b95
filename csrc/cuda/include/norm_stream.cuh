// SPDX-License-Identifier: MIT
// Rows read twice, the second time from cache: with few registers a thread, all warps of a multiprocessor read at once.
#pragma once

#include "norm_common.cuh"

namespace kw {

// Every element is read again by the thread that read it first, just before that thread writes there: the sum and
// the result may lie where the inputs do. kMayAdd: there may be a residual.
template <bool kCentered, class T, bool kMayAdd, int kBytes>
__device__ __forceinline__ void norm_stream(const Params& p) {
  using Piece = Unit<T, kBytes>;
  constexpr int kCount = Piece::kCount;
  constexpr int kPieces = kCount == 1 ? kScalarSlots : 2;
  __shared__ typename Tally<kCentered>::Scratch scratch;

  begin<false>(p, scratch);
  const Place at = place_in_rows(p);
  if (at.row >= p.rows) return;
  const bool adds = kMayAdd && p.residual != nullptr;
  const char* x = row_at(p.x, at.row, p.x_pitch, 0);
  const char* residual = kMayAdd ? row_at(p.residual, at.row, p.residual_pitch, 0) : nullptr;
  const u32 units = static_cast<u32>(p.cols) / kCount, stride = at.threads * kPieces;

  auto add_up = [&](const Piece& in, const Piece& add, float (&h)[kCount]) {
    in.unpack(h);
    if constexpr (kMayAdd) {
      float r[kCount];
      add.unpack(r);
      add_to(h, r);
    }
  };

  Tally<kCentered> tally;
  for (u32 begin = at.thread; begin < units; begin += stride) {
    Piece in[kPieces], add[kPieces];
#pragma unroll
    for (int s = 0; s < kPieces; ++s) {
      const u32 unit = begin + s * at.threads;
      in[s].clear(), add[s].clear();
      if (unit < units) load_to_keep<kBytes>(x + unit * kBytes, in[s].word);
      if (adds && unit < units) load_to_keep<kBytes>(residual + unit * kBytes, add[s].word);
    }
#pragma unroll
    for (int s = 0; s < kPieces; ++s) {
      if (kCentered && begin + s * at.threads >= units) break;  // zeros add nothing to a sum of squares
      float h[kCount];
      add_up(in[s], add[s], h);
      tally.take(h);
    }
  }
  const Statistics of_row = tally.template of_row<false>(p, scratch);
  if (at.thread == 0) store_statistics<kCentered>(p, at.row, of_row);

  // Backwards: what was read last is still nearest.
  char* y = row_at(p.y, at.row, p.y_pitch, 0);
  char* sum = kMayAdd ? row_at(p.sum, at.row, p.sum_pitch, 0) : nullptr;
  for (u32 done = (units + at.threads - 1) / at.threads; done > 0; --done) {
    const u32 unit = at.thread + (done - 1) * at.threads;
    if (unit >= units) continue;
    Piece in, add;
    add.clear();
    load_kept<kBytes>(x + unit * kBytes, in.word);
    if (adds) load_kept<kBytes>(residual + unit * kBytes, add.word);
    float h[kCount];
    Columns<kCentered, T, kBytes> columns;
    columns.load(p, unit * kCount);
    add_up(in, add, h);
    if (adds) store_unit<T, kBytes>(sum + unit * kBytes, h);
    normalise(p, of_row, unit * kCount, columns, h);
    store_unit<T, kBytes>(y + unit * kBytes, h);
  }
}

}  // namespace kw
