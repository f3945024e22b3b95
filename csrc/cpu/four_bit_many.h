// SPDX-License-Identifier: MIT
// The product of many rows of x, or of rows that no chunks fit in: a span of four rows of the weight is decoded into
// the nearest cache, and multiplied with every row of x. Included by matmul_4bit.cpp alone.
#pragma once

#include "four_bit_product.h"

namespace kw::cpu::KW_ISA {
namespace {

constexpr int64_t kDecoded = 512;  // elements of a row at a time

struct ManyRows {
  alignas(64) float weight[kWeightRows][kDecoded];
  Vec sums[kMostRows][kWeightRows];
};

inline void decode_rows(const Matmul4bit& a, int64_t row, int rows, int64_t span, int64_t count, ManyRows* to) {
  const int64_t padded = (count + kLanes - 1) / kLanes * kLanes;
  for (int r = 0; r < rows; ++r) {
    const int64_t first = (row + r) * a.k + span;
    decode_elements(a.packed, a.scales, a.blocksize, a.quant_type, first, first + count, to->weight[r]);
    memset(to->weight[r] + count, 0, static_cast<size_t>(padded - count) * sizeof(float));
  }
}

template <int kCols>
void multiply(const float* x, int64_t pitch, int64_t count, const ManyRows& from, Vec (*to)[kWeightRows]) {
  Vec sums[kCols][kWeightRows];
  for (int c = 0; c < kCols; ++c)
    for (int r = 0; r < kWeightRows; ++r) sums[c][r] = to[c][r];
  for (int64_t i = 0; i < count; i += kLanes) {
    Vec weight[kWeightRows];
    for (int r = 0; r < kWeightRows; ++r) weight[r] = load(from.weight[r] + i);
    for (int c = 0; c < kCols; ++c) {
      const Vec in = load(x + c * pitch + i);
      for (int r = 0; r < kWeightRows; ++r) sums[c][r] = mul_add(weight[r], in, sums[c][r]);
    }
  }
  for (int c = 0; c < kCols; ++c)
    for (int r = 0; r < kWeightRows; ++r) to[c][r] = sums[c][r];
}

inline void product_of_many(const Product& p, int64_t begin, int64_t end) {
  const Matmul4bit& a = p.a;
  ManyRows w;
  memset(w.weight, 0, sizeof w.weight);
  for (int64_t row = begin; row < end; row += kWeightRows) {
    const int rows = end - row < kWeightRows ? static_cast<int>(end - row) : kWeightRows;
    for (int64_t m = 0; m < a.m; ++m)
      for (Vec& v : w.sums[m]) v = zero();
    for (int64_t span = 0; span < a.k; span += kDecoded) {
      const int64_t count = span + kDecoded < a.k ? kDecoded : a.k - span;
      decode_rows(a, row, rows, span, count, &w);
      const float* x = p.x + span;
      int64_t m = 0;
      for (; m + kTileCols <= a.m; m += kTileCols) multiply<kTileCols>(x + m * p.pitch, p.pitch, count, w, w.sums + m);
      for (; m < a.m; ++m) multiply<1>(x + m * p.pitch, p.pitch, count, w, w.sums + m);
    }
    for (int64_t m = 0; m < a.m; ++m) {
      float sums[kWeightRows];
      for (int r = 0; r < rows; ++r) sums[r] = total(w.sums[m][r]);
      finish(a, m, row, sums, rows);
    }
  }
}

}  // namespace
}  // namespace kw::cpu::KW_ISA
