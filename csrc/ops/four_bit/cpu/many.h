// SPDX-License-Identifier: MIT
// The product of many rows of x, or of rows that no chunks fit in: a span of eight rows of the weight is decoded into
// the nearest cache, and multiplied with every row of x. Included by matmul_4bit.cpp alone.
#pragma once

#include "ops/four_bit/cpu/product.h"

namespace kw::cpu::KW_ISA {
namespace {

constexpr int64_t kDecoded = 512;  // elements of a row at a time

constexpr int kBlockRows = 8;  // of the weight, for which x comes from a farther cache once

struct ManyRows {
  alignas(64) float weight[kBlockRows][kDecoded];
  Vec sums[kMostRows][kBlockRows];
};

template <class Chunk, int kStep = 0>
void store_values(const Values& values, Codes codes, float* to) {
  if constexpr (kStep < Chunk::kSize / kLanes) {
    store(to + kStep * kLanes, Chunk::template value<kStep>(values, codes));
    store_values<Chunk, kStep + 1>(values, codes, to);
  }
}

// A span of a row in the order of chunks.
template <class Chunk>
void decode_chunks(const Matmul4bit& a, int64_t first, int64_t count, float* to) {
  const Values plain(kCodeValues[a.quant_type]);
  const int shift = __builtin_ctz(static_cast<unsigned>(a.blocksize));
  const int64_t block = first >> shift, past = first & (a.blocksize - 1);
  float decoded[kDecoded / kSmallestBlock + 1];
  const float* scales = a.scales.absmax + block;
  if (a.scales.absmax == nullptr) {
    decode_scales(a.scales, block, ((past + count - 1) >> shift) + 1, decoded);
    scales = decoded;
  }
  for (int64_t i = 0; i < count; i += Chunk::kSize, to += Chunk::kSize) {
    const Codes codes = Chunk::load_codes(plain, a.packed + (first + i) / 2);
    const float* scale = scales + ((past + i) >> shift);
    if (a.blocksize >= Chunk::kSize) {
      store_values<Chunk>(Chunk::scaled(plain, *scale), codes, to);
      continue;
    }
    store_values<Chunk>(plain, codes, to);
    const Vec two = Chunk::template scales<2>(scale);
    for (int at = 0; at < Chunk::kSize; at += kLanes) store(to + at, mul(load(to + at), two));
  }
}

template <class Chunk>
void decode_rows(const Matmul4bit& a, int64_t row, int rows, int64_t span, int64_t count, ManyRows* to) {
  const int64_t padded = (count + kLanes - 1) / kLanes * kLanes;
  for (int r = 0; r < rows; ++r) {
    const int64_t first = (row + r) * a.k + span;
    // What follows in the row, or the row of the next block: pieces of so many rows are no stream to a CPU.
    fetch<kDecoded / 2>(a.packed + (first + (span + kDecoded < a.k ? kDecoded : kBlockRows * a.k - span)) / 2);
    if constexpr (Chunk::kScaleFirst) {
      if (in_chunks(a)) {
        decode_chunks<Chunk>(a, first, count, to->weight[r]);
        continue;
      }
    }
    decode_elements(a.packed, a.scales, a.blocksize, a.quant_type, first, first + count, to->weight[r]);
    memset(to->weight[r] + count, 0, static_cast<size_t>(padded - count) * sizeof(float));
  }
}

// Adds the products of kWeightRows rows with kCols rows of x.
template <int kCols>
void multiply(const float* x, int64_t pitch, int64_t count, const float (*from)[kDecoded], Vec* to) {
  Vec sums[kCols][kWeightRows];
  for (int c = 0; c < kCols; ++c)
    for (int r = 0; r < kWeightRows; ++r) sums[c][r] = to[c * kBlockRows + r];
  for (int64_t i = 0; i < count; i += kLanes) {
    Vec weight[kWeightRows];
    for (int r = 0; r < kWeightRows; ++r) weight[r] = load(from[r] + i);
    for (int c = 0; c < kCols; ++c) {
      const Vec in = load(x + c * pitch + i);
      for (int r = 0; r < kWeightRows; ++r) sums[c][r] = mul_add(weight[r], in, sums[c][r]);
    }
  }
  for (int c = 0; c < kCols; ++c)
    for (int r = 0; r < kWeightRows; ++r) to[c * kBlockRows + r] = sums[c][r];
}

template <int kCols = kTileCols>
void multiply_some(int64_t cols, const float* x, int64_t pitch, int64_t count, const float (*from)[kDecoded], Vec* to) {
  if constexpr (kCols > 1) {
    if (cols < kCols) return multiply_some<kCols - 1>(cols, x, pitch, count, from, to);
  }
  multiply<kCols>(x, pitch, count, from, to);
}

inline void product_of_many(const Product& p, int64_t begin, int64_t end) {
  const Matmul4bit& a = p.a;
  const int64_t passes = (a.m + kTileCols - 1) / kTileCols;  // over rows of x, of almost equal numbers
  ManyRows w;
  memset(w.weight, 0, sizeof w.weight);
  for (int64_t row = begin; row < end; row += kBlockRows) {
    const int rows = end - row < kBlockRows ? static_cast<int>(end - row) : kBlockRows;
    for (int64_t m = 0; m < a.m; ++m)
      for (Vec& v : w.sums[m]) v = zero();
    for (int64_t span = 0; span < a.k; span += kDecoded) {
      const int64_t count = span + kDecoded < a.k ? kDecoded : a.k - span;
      decode_rows<MoreChunks>(a, row, rows, span, count, &w);
      for (int64_t pass = 0, m = 0; pass < passes; ++pass) {
        const int64_t cols = (a.m - m + passes - pass - 1) / (passes - pass);
        const float* x = p.x + m * p.pitch + span;
        for (int r = 0; r < rows; r += kWeightRows) {
          multiply_some(cols, x, p.pitch, count, w.weight + r, w.sums[m] + r);
        }
        m += cols;
      }
    }
    for (int64_t m = 0; m < a.m; ++m) {
      float sums[kBlockRows];
      for (int r = 0; r < rows; ++r) sums[r] = total(w.sums[m][r]);
      for (int r = 0; r < rows; r += kWeightRows) {
        finish(a, m, row + r, sums + r, rows - r < kWeightRows ? rows - r : kWeightRows);
      }
    }
  }
}

}  // namespace
}  // namespace kw::cpu::KW_ISA
