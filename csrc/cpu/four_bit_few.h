// SPDX-License-Identifier: MIT
// The product of few rows of x: codes are looked up where they are multiplied, and nothing is written. A vector of
// codes lies in the order that the set's instructions like, and so does x. Products within a block are summed before
// they are scaled. Included by matmul_4bit.cpp alone.
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
constexpr int64_t kSmallestBlock = 32;

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
    for (int r = 0; r < kRows; ++r) {
      const int64_t first = (row + r * gap) * a.k + span, block = first / a.blocksize;
      packed[r] = a.packed + first / 2;
      past[r] = first % a.blocksize;
      scales[r] = a.scales.absmax + block;
      if (a.scales.absmax != nullptr) continue;
      const int64_t blocks = (past[r] + count + a.blocksize - 1) / a.blocksize;
      fetch<kSpan / kSmallestBlock>(a.scales.codes + block + blocks);
      decode_scales(a.scales, block, blocks, decoded[r]);
      scales[r] = decoded[r];
    }
  }
};

// Adds the products of one chunk, kStep by kStep: the step must be a constant where codes are shifted.
template <int kStep, int kRows, int kCols>
void add_steps(const Values& values, const Codes (&codes)[kRows], const float* x, int64_t pitch,
               Vec (&sums)[kRows][kCols]) {
  if constexpr (kStep < kChunk / kLanes) {
    for (int r = 0; r < kRows; ++r) {
      const Vec w = value<kStep>(values, codes[r]);
      for (int c = 0; c < kCols; ++c) {
        const Vec in = load(x + c * pitch + kStep * kLanes);
        sums[r][c] = kStep == 0 ? mul(w, in) : mul_add(w, in, sums[r][c]);
      }
    }
    add_steps<kStep + 1>(values, codes, x, pitch, sums);
  }
}

template <int kRows, int kCols>
void few_sums(const Product& p, int64_t row, int64_t gap, Vec (&totals)[kRows][kCols]) {
  const Matmul4bit& a = p.a;
  const Values values(kCodeValues[a.quant_type]);
  const int shift = __builtin_ctz(static_cast<unsigned>(a.blocksize));
  const int each = a.blocksize < kChunk ? static_cast<int>(kChunk / a.blocksize) : 1;
  FewRows<kRows> w;
  for (int64_t span = 0; span < a.k; span += kSpan) {
    const int64_t count = span + kSpan < a.k ? kSpan : a.k - span;
    w.go_to(a, row, gap, span, count);
    for (int64_t i = 0; i < count; i += kChunk) {
      Codes codes[kRows];
      for (int r = 0; r < kRows; ++r) {
        codes[r] = load_codes(values, w.packed[r] + i / 2);
        __builtin_prefetch(w.packed[r] + i / 2 + kAhead);
      }
      Vec sums[kRows][kCols];
      add_steps<0>(values, codes, p.x + span + i, p.pitch, sums);
      for (int r = 0; r < kRows; ++r) {
        const Vec scale = chunk_scales(w.scales[r] + ((w.past[r] + i) >> shift), each);
        for (int c = 0; c < kCols; ++c) totals[r][c] = mul_add(sums[r][c], scale, totals[r][c]);
      }
    }
  }
}

template <class T, int kRows, int kCols>
void few_rows(const Product& p, int64_t begin, int64_t end) {
  const int64_t gap = (end - begin) / kRows, rest = begin + gap * kRows;
  for (int64_t row = begin; row < begin + gap; ++row) {
    Vec totals[kRows][kCols];
    for (auto& of_row : totals)
      for (Vec& v : of_row) v = zero();
    few_sums(p, row, gap, totals);
    for (int c = 0; c < kCols; ++c) {
      for (int r = 0; r < kRows; ++r) {
        const float sum = total(totals[r][c]);
        finish<T>(p.a, c, row + r * gap, &sum, 1);
      }
    }
  }
  if constexpr (kRows > 1) {
    if (rest < end) few_rows<T, 1, kCols>(p, rest, end);
  }
}

template <class T>
void product_of_few(const Product& p, int64_t row, int64_t end) {
  if (p.a.m == 1) return few_rows<T, 4, 1>(p, row, end);
  if (p.a.m == 2) return few_rows<T, 4, 2>(p, row, end);
  if (p.a.m == 3) return few_rows<T, 2, 3>(p, row, end);
  return few_rows<T, 2, 4>(p, row, end);
}

}  // namespace
}  // namespace kw::cpu::KW_ISA
