// SPDX-License-Identifier: MIT
// The product of few rows of x: codes are looked up where they are multiplied, and nothing is written. A vector of
// codes lies in the order that the set's instructions like, and so does x. Included by matmul_4bit.cpp alone.
//
// Rows that are computed together lie far apart, and each goes on into the next one: so many straight streams a CPU
// reads ahead, where rows next to each other, of a usual length two on one page, are none to it. It takes 17 instead of
// 13.5 GB/s to one core that reads 19.7 at best.
#pragma once

#include "four_bit_product.h"

namespace kw::cpu::KW_ISA {
namespace {

// Elements of a row between two looks at its scales: so many that a block has a part in few, so few that decoded scales
// stay near.
constexpr int64_t kSpan = 8192;

// Bytes ahead of each stream that memory is asked for.
constexpr int64_t kAhead = 2048;

// Rows of the weight, each `gap` after the one before, and the scales of one span of them.
template <int kRows>
struct FewRows {
  const uint8_t* packed[kRows];
  const float* scales[kRows];
  int64_t past[kRows];  // elements of the span's first block that lie before it
  float decoded[kRows][kSpan / kSmallestBlock + 1];

  void go_to(const Matmul4bit& a, int64_t row, int64_t gap, int64_t span, int64_t count) {
    const int shift = __builtin_ctz(static_cast<unsigned>(a.blocksize));
    for (int r = 0; r < kRows; ++r) {
      const int64_t first = (row + r * gap) * a.k + span, block = first >> shift;
      packed[r] = a.packed + first / 2;
      past[r] = first & (a.blocksize - 1);
      scales[r] = a.scales.absmax + block;
      if (a.scales.absmax != nullptr) continue;
      const int64_t blocks = (past[r] + count + a.blocksize - 1) >> shift;
      fetch<kSpan / kSmallestBlock>(a.scales.codes + block + blocks);
      decode_scales(a.scales, block, blocks, decoded[r]);
      scales[r] = decoded[r];
    }
  }
};

// Of a span, for kCols rows of x.
template <class Chunk, int kRows, int kCols>
struct FewSums {
  Vec sums[kRows][kCols];

  // Adds the products of one chunk, kStep by kStep: the step must be a constant where codes are shifted. kFresh: to
  // nothing.
  template <bool kFresh, int kStep = 0>
  [[gnu::always_inline]] void add(const Values* const (&values)[kRows], const Codes (&codes)[kRows], const float* x,
                                  int64_t pitch) {
    if constexpr (kStep < Chunk::kSize / kLanes) {
      Vec in[kCols];
      for (int c = 0; c < kCols; ++c) in[c] = load(x + c * pitch + kStep * kLanes);
      for (int r = 0; r < kRows; ++r) {
        const Vec w = Chunk::template value<kStep>(*values[r], codes[r]);
        for (int c = 0; c < kCols; ++c)
          sums[r][c] = kFresh && kStep == 0 ? mul(w, in[c]) : mul_add(w, in[c], sums[r][c]);
      }
      add<kFresh, kStep + 1>(values, codes, x, pitch);
    }
  }
};

// Adds the products of `count` elements to `to`, [row of x][row]. kBlocks: that a chunk has parts of, which lie in it
// as a whole if there are several.
template <class Chunk, int kBlocks, int kRows, int kCols>
void add_span(const Product& p, const FewRows<kRows>& w, const float* x, int64_t count, Vec (*to)[kRows]) {
  const Values plain(kCodeValues[p.a.quant_type]);
  const int shift = __builtin_ctz(static_cast<unsigned>(p.a.blocksize));
  const int64_t pitch = p.pitch;
  FewSums<Chunk, kRows, kCols> totals;
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kCols; ++c) totals.sums[r][c] = to[c][r];
  for (int64_t i = 0; i < count; i += Chunk::kSize) {
    Codes codes[kRows];
    const float* scales[kRows];
    for (int r = 0; r < kRows; ++r) {
      codes[r] = Chunk::load_codes(plain, w.packed[r] + i / 2);
      __builtin_prefetch(w.packed[r] + i / 2 + kAhead);
      scales[r] = w.scales[r] + (kBlocks > 1 ? i / (Chunk::kSize / kBlocks) : (w.past[r] + i) >> shift);
    }
    const Values* values[kRows];
    if constexpr (Chunk::kScaleFirst && kBlocks == 1) {
      Values scaled[kRows];
      for (int r = 0; r < kRows; ++r) scaled[r] = Chunk::scaled(plain, *scales[r]), values[r] = &scaled[r];
      totals.template add<false>(values, codes, x + i, pitch);
    } else {
      for (int r = 0; r < kRows; ++r) values[r] = &plain;
      FewSums<Chunk, kRows, kCols> chunk;
      chunk.template add<true>(values, codes, x + i, pitch);
      for (int r = 0; r < kRows; ++r) {
        const Vec scale = Chunk::template scales<kBlocks>(scales[r]);
        for (int c = 0; c < kCols; ++c) totals.sums[r][c] = mul_add(chunk.sums[r][c], scale, totals.sums[r][c]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kCols; ++c) to[c][r] = totals.sums[r][c];
}

template <class Chunk, int kRows, int kCols>
void few_span(const Product& p, const FewRows<kRows>& w, const float* x, int64_t count, Vec (*to)[kRows]) {
  if constexpr (Chunk::kSize > kSmallestBlock) {
    if (p.a.blocksize == Chunk::kSize / 2) return add_span<Chunk, 2, kRows, kCols>(p, w, x, count, to);
  }
  if constexpr (Chunk::kSize > 2 * kSmallestBlock) {
    if (p.a.blocksize == Chunk::kSize / 4) return add_span<Chunk, 4, kRows, kCols>(p, w, x, count, to);
  }
  add_span<Chunk, 1, kRows, kCols>(p, w, x, count, to);
}

constexpr int64_t kMostCols = 4;

template <class Chunk, int kRows, int64_t kCols, int64_t kMost>
void few_span_of(const Product& p, const FewRows<kRows>& w, const float* x, int64_t count, int64_t cols,
                 Vec (*to)[kRows]) {
  if constexpr (kCols < kMost) {
    if (cols != kCols) return few_span_of<Chunk, kRows, kCols + 1, kMost>(p, w, x, count, cols, to);
  }
  few_span<Chunk, kRows, kCols>(p, w, x, count, to);
}

// Of `left` rows of x, those that one pass over a span takes.
inline int64_t few_cols(int64_t left) {
  const int64_t passes = (left + kMostCols - 1) / kMostCols;
  return (left + passes - 1) / passes;
}

// For kLeast to kMost rows of x, and more if kMost is kMostCols.
template <class Chunk, int kRows, int64_t kLeast, int64_t kMost>
void few_rows(const Product& p, int64_t begin, int64_t end) {
  const int64_t gap = (end - begin) / kRows, rest = begin + gap * kRows;
  FewRows<kRows> w;
  for (int64_t row = begin; row < begin + gap; ++row) {
    Vec totals[kFewRows][kRows];
    for (int64_t c = 0; c < p.a.m; ++c)
      for (Vec& v : totals[c]) v = zero();
    for (int64_t span = 0; span < p.a.k; span += kSpan) {
      const int64_t count = span + kSpan < p.a.k ? kSpan : p.a.k - span;
      w.go_to(p.a, row, gap, span, count);
      for (int64_t c = 0, cols; c < p.a.m; c += cols) {
        cols = few_cols(p.a.m - c);
        const float* x = p.x + c * p.pitch + span;
        few_span_of<Chunk, kRows, kLeast, kMost>(p, w, x, count, cols, totals + c);
      }
    }
    for (int64_t c = 0; c < p.a.m; ++c) {
      for (int r = 0; r < kRows; ++r) {
        const float sum = total(totals[c][r]);
        finish(p.a, c, row + r * gap, &sum, 1);
      }
    }
  }
  if constexpr (kRows > 1) {
    if (rest < end) few_rows<Chunk, 1, kLeast, kMost>(p, rest, end);
  }
}

inline void product_of_few(const Product& p, int64_t row, int64_t end) {
  if (!few_of_more(p.a)) return few_rows<Chunks, 4, 1, kMoreRows - 1>(p, row, end);
  constexpr int64_t kLeast =
      Chunks::kSize / MoreChunks::kSize > 1 ? 1 : kMoreRows;  // of any, where the others do not fit
  few_rows<MoreChunks, MoreChunks::kScaleFirst ? 4 : 2, kLeast, kMostCols>(p, row, end);
}

}  // namespace
}  // namespace kw::cpu::KW_ISA
