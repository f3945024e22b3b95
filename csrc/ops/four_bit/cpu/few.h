// SPDX-License-Identifier: MIT
// The product of few rows of x: codes are looked up where they are multiplied, and nothing is written. A vector of
// codes lies in the order that the set's instructions like, and so does x. Included by matmul_4bit.cpp alone.
//
// Rows that are computed together lie far apart, and each goes on into the next one: so many straight streams a CPU
// reads ahead, where rows next to each other, of a usual length two on one page, are none to it. It takes 17 instead of
// 13.5 GB/s to one core that reads 19.7 at best.
#pragma once

#include "ops/four_bit/cpu/product.h"

namespace kw::cpu::KW_ISA {
namespace {

// Elements of a row between two looks at its scales: so many that a block has a part in few, so few that decoded scales
// stay near.
constexpr int64_t kSpan = 8192;

// From kSharing rows of x on, spans are as short as lets the nearest cache hold x of one, kNear elements, and one look
// at it serves kTogether rows of each stream. Fewer rows of x gain less by that than straight streams do.
constexpr int64_t kSharing = 5, kNear = 8192, kTogether = 16;

// Bytes ahead of each stream that memory is asked for.
constexpr int64_t kAhead = 2048;

inline int64_t few_span_size(const Matmul4bit& a) {
  int64_t size = kSpan;
  while (a.m >= kSharing && size * a.m > kNear) size /= 2;
  return size;
}

// Streams of rows of the weight, and where each is: the scales of one span of a row.
template <int kRows>
struct FewRows {
  int64_t start[kRows];  // their first rows
  const uint8_t* packed[kRows];
  const float* scales[kRows];
  int64_t past[kRows];      // elements of the span's first block that lie before it
  int64_t turn, near, far;  // memory is asked for `near` bytes ahead of elements before `turn`, `far` ahead of others
  float decoded[kRows][kSpan / kSmallestBlock + 1];

  // The streams' row `row`.
  void go_to(const Matmul4bit& a, int64_t row, int64_t span, int64_t count) {
    const int shift = __builtin_ctz(static_cast<unsigned>(a.blocksize));
    for (int r = 0; r < kRows; ++r) {
      const int64_t first = (start[r] + row) * a.k + span, block = first >> shift;
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

  // `next`: elements from this span's first to that of the span that comes after it.
  void look_ahead(int64_t count, int64_t next) {
    const int64_t ahead = count / 2 < kAhead ? count / 2 : kAhead;
    turn = count - 2 * ahead;
    near = ahead;
    far = next / 2 - count / 2 + ahead;
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
      Vec w[kRows];
      for (int r = 0; r < kRows; ++r) w[r] = Chunk::template value<kStep>(*values[r], codes[r]);
      for (int c = 0; c < kCols; ++c) {
        const Vec in = load(x + c * pitch + kStep * kLanes);
        for (int r = 0; r < kRows; ++r)
          sums[r][c] = kFresh && kStep == 0 ? mul(w[r], in) : mul_add(w[r], in, sums[r][c]);
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
    const int64_t ahead = i < w.turn ? w.near : w.far;
    for (int r = 0; r < kRows; ++r) {
      codes[r] = Chunk::load_codes(plain, w.packed[r] + i / 2);
      __builtin_prefetch(w.packed[r] + i / 2 + ahead);
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

template <class Chunk, int kRows, int64_t kCols, int64_t kMost>
void few_span_of(const Product& p, const FewRows<kRows>& w, const float* x, int64_t count, Vec (*to)[kRows]) {
  if constexpr (kCols < kMost) {
    if (p.a.m != kCols) return few_span_of<Chunk, kRows, kCols + 1, kMost>(p, w, x, count, to);
  }
  few_span<Chunk, kRows, kCols>(p, w, x, count, to);
}

// For kLeast to kMost rows of x. Streams are of equal length: where rows do not go into that, some are computed twice.
template <class Chunk, int kRows, int64_t kLeast, int64_t kMost>
void few_rows(const Product& p, int64_t begin, int64_t end) {
  constexpr int64_t kPart = kLanes / 2;  // sums that are written at once: fewer than a vector has
  const int64_t length = (end - begin + kRows - 1) / kRows;
  const int64_t size = few_span_size(p.a), most = size >= p.a.k || p.a.m >= kSharing ? kTogether : 1;
  FewRows<kRows> w;
  for (int r = 0; r < kRows; ++r) {
    const int64_t start = begin + r * length;
    w.start[r] = start < end - length ? start : end - length;
  }
  for (int64_t row = 0, rows; row < length; row += rows) {
    rows = length - row < most ? length - row : most;
    Vec totals[kTogether][kMost][kRows];
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t c = 0; c < p.a.m; ++c)
        for (Vec& v : totals[i][c]) v = zero();
    for (int64_t span = 0; span < p.a.k; span += size) {
      const int64_t count = span + size < p.a.k ? size : p.a.k - span;
      for (int64_t i = 0; i < rows; ++i) {
        w.go_to(p.a, row + i, span, count);
        w.look_ahead(count, i + 1 < rows ? p.a.k : span + size < p.a.k ? size - i * p.a.k : p.a.k - span);
        few_span_of<Chunk, kRows, kLeast, kMost>(p, w, p.x + span, count, totals[i]);
      }
    }
    for (int64_t c = 0; c < p.a.m; ++c) {
      for (int r = 0; r < kRows; ++r) {
        float sums[kTogether];
        for (int64_t i = 0; i < rows; ++i) sums[i] = total(totals[i][c][r]);
        for (int64_t i = 0; i < rows; i += kPart) {
          finish(p.a, c, w.start[r] + row + i, sums + i, static_cast<int>(rows - i < kPart ? rows - i : kPart));
        }
      }
    }
  }
}

inline void product_of_few(const Product& p, int64_t row, int64_t end) {
  if (!few_of_more(p.a)) return few_rows<Chunks, 4, 1, kMoreRows - 1>(p, row, end);
  constexpr int64_t kLeast =
      Chunks::kSize / MoreChunks::kSize > 1 ? 1 : kMoreRows;  // of any, where the others do not fit
  if constexpr (kFewRows > 4) {
    // Two rows of the weight: so the sums of all rows of x fit into registers, and codes are looked up once.
    if (p.a.m > 4) return few_rows<MoreChunks, 2, 5, kFewRows>(p, row, end);
  }
  few_rows<MoreChunks, MoreChunks::kScaleFirst ? 4 : 2, kLeast, 4>(p, row, end);
}

}  // namespace
}  // namespace kw::cpu::KW_ISA
