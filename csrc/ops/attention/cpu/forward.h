// SPDX-License-Identifier: MIT
// Attention of some rows, queries of heads that share a head of keys, tile by tile of the keys. Included once for each
// instruction set.
#pragma once

#include "ops/attention/cpu/rope.h"
#include "ops/attention/cpu/softmax.h"

namespace kw::cpu::KW_ISA {
namespace {

enum { kTileRows = 64, kFewRows = 8 };

template <class T>
class Forward {
 public:
  explicit Forward(const AttentionProblem& problem) : a(problem), wide_v(padded(problem.d_v)) {}

  void run(const Sequence& s, const Block& block) {
    const int64_t rows = block.rows(), kv_head = block.head / (a.heads / a.kv_heads);
    for (int64_t i = 0; i < rows; ++i) {
      load_row(query_row_of<T>(a.q, s, block.head_of(i), block.query_of(i)), a.d, a.scale, q_[i]);
      if (a.cos != nullptr) turn<T>(a, s.keys - a.new_rows + (a.moves ? block.query_of(i) : 0), q_[i]);
      memset(out_[i], 0, static_cast<size_t>(wide_v) * sizeof(float));
      sums_[i].begin(a, block.head_of(i));
    }
    const Span span = span_of(a, s, block.query, block.queries);
    for (int64_t key = span.begin; key < span.end; key += kTileKeys) {
      const int64_t count = key + kTileKeys < span.end ? int64_t{kTileKeys} : span.end - key;
      if (rows <= kFewRows)
        few(s, block, kv_head, key, count);
      else
        many(s, block, kv_head, key, count);
    }
    for (int64_t i = 0; i < rows; ++i) {
      store_row(out_[i], a.d_v, sums_[i].inverse(), query_row_of<T>(a.out, s, block.head_of(i), block.query_of(i)));
      if (a.lse != nullptr) *lse_of(a, s, block.head_of(i), block.query_of(i)) = sums_[i].lse();
    }
  }

 private:
  // Scores to shares, and sums so far to what they are beside these.
  void soften(const Sequence& s, const Block& block, int64_t key, int64_t count) {
    const int64_t width = padded(count);
    for (int64_t i = 0; i < block.rows(); ++i) {
      if (a.softcap != 0) cap(a.softcap, scores_[i], width);
      finish_scores(a, s, block.head_of(i), block.query_of(i), key, width, scores_[i]);
      const float factor = sums_[i].add_tile(scores_[i], width);
      if (factor == 1.0f) continue;
      for (int64_t j = 0; j < wide_v; j += kLanes) store(out_[i] + j, mul(load(out_[i] + j), all(factor)));
    }
  }

  void many(const Sequence& s, const Block& block, int64_t kv_head, int64_t key, int64_t count) {
    const int64_t rows = block.rows(), width = padded(count);
    for (int64_t j = 0; j < count; ++j) load_row(row_of<T>(a, a.k, s, kv_head, key + j), a.d, 1.0f, tile_[j]);
    transpose({tile_[0], kMostWide}, count, a.d, {keys_[0], kTileKeys});
    product<false>({q_[0], kMostWide}, {keys_[0], kTileKeys}, {scores_[0], kTileKeys}, rows, width, a.d);
    soften(s, block, key, count);
    for (int64_t j = 0; j < count; ++j) load_row(row_of<T>(a, a.v, s, kv_head, key + j), a.d_v, 1.0f, tile_[j]);
    product<true>({scores_[0], kTileKeys}, {tile_[0], kMostWide}, {out_[0], kMostWide}, rows, wide_v, count);
  }

  // Of so few rows that to lay out a tile of keys would take longer than to multiply with it.
  void few(const Sequence& s, const Block& block, int64_t kv_head, int64_t key, int64_t count) {
    const int64_t rows = block.rows();
    for (int64_t j = 0; j < count; ++j) {
      const T* k = row_of<T>(a, a.k, s, kv_head, key + j);
      int64_t i = 0;
      for (; i + 4 <= rows; i += 4) dots<4>(k, i, j);
      for (; i < rows; ++i) dots<1>(k, i, j);
    }
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = count; j < padded(count); ++j) scores_[i][j] = kNever;
    soften(s, block, key, count);
    for (int64_t j = 0; j < count; ++j) {
      const T* v = row_of<T>(a, a.v, s, kv_head, key + j);
      int64_t i = 0;
      for (; i + 4 <= rows; i += 4) add_row<4>(v, i, j);
      for (; i < rows; ++i) add_row<1>(v, i, j);
    }
  }

  template <int kRows>
  void dots(const T* k, int64_t row, int64_t key) {
    Vec sums[kRows];
    for (Vec& sum : sums) sum = zero();
    for (int64_t at = 0; at < a.d; at += kLanes) {
      const Vec right = at + kLanes <= a.d ? load(k + at) : load_part(k + at, a.d - at);
      for (int i = 0; i < kRows; ++i) sums[i] = mul_add(load(q_[row + i] + at), right, sums[i]);
    }
    for (int i = 0; i < kRows; ++i) scores_[row + i][key] = total(sums[i]);
  }

  template <int kRows>
  void add_row(const T* v, int64_t row, int64_t key) {
    Vec shares[kRows];
    for (int i = 0; i < kRows; ++i) shares[i] = all(scores_[row + i][key]);
    for (int64_t at = 0; at < a.d_v; at += kLanes) {
      const Vec value = at + kLanes <= a.d_v ? load(v + at) : load_part(v + at, a.d_v - at);
      for (int i = 0; i < kRows; ++i) store(out_[row + i] + at, mul_add(shares[i], value, load(out_[row + i] + at)));
    }
  }

  const AttentionProblem& a;
  const int64_t wide_v;
  RowSums sums_[kTileRows];
  alignas(64) float q_[kTileRows][kMostWide];
  alignas(64) float out_[kTileRows][kMostWide];
  alignas(64) float scores_[kTileRows][kTileKeys];
  alignas(64) float tile_[kTileKeys][kMostWide];
  alignas(64) float keys_[kMostWide][kTileKeys];
};

}  // namespace
}  // namespace kw::cpu::KW_ISA
