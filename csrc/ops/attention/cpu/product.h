// SPDX-License-Identifier: MIT
// Small products of matrices of float32 in the nearest caches, and how their tiles come there. Included once for each
// instruction set.
#pragma once

#include <string.h>

#include "cpu/simd.h"

namespace kw::cpu::KW_ISA {
namespace {

// Accumulators at once: rows times vectors, as many as registers hold.
#define KW_ATTENTION_ROWS_scalar 2
#define KW_ATTENTION_ROWS_avx2 4
#define KW_ATTENTION_ROWS_avx512 6
#define KW_ATTENTION_ROWS_neon 6
#define KW_ATTENTION_VECTORS_scalar 1
#define KW_ATTENTION_VECTORS_avx2 3
#define KW_ATTENTION_VECTORS_avx512 4
#define KW_ATTENTION_VECTORS_neon 4
enum {
  kRowsAtOnce = KW_CPU_JOIN(KW_ATTENTION_ROWS_, KW_ISA),
  kVectorsAtOnce = KW_CPU_JOIN(KW_ATTENTION_VECTORS_, KW_ISA)
};

struct Matrix {
  float* at;
  int64_t stride;

  float* row(int64_t i) const { return at + i * stride; }
};

template <int kRows, int kVectors, bool kAdd>
void product_part(Matrix a, Matrix b, Matrix c, int64_t depth) {
  Vec sums[kRows][kVectors];
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kVectors; ++j) sums[i][j] = kAdd ? load(c.row(i) + j * kLanes) : zero();
  for (int64_t k = 0; k < depth; ++k) {
    Vec right[kVectors];
    for (int j = 0; j < kVectors; ++j) right[j] = load(b.row(k) + j * kLanes);
    for (int i = 0; i < kRows; ++i) {
      const Vec left = all(a.row(i)[k]);
      for (int j = 0; j < kVectors; ++j) sums[i][j] = mul_add(left, right[j], sums[i][j]);
    }
  }
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kVectors; ++j) store(c.row(i) + j * kLanes, sums[i][j]);
}

template <int kVectors, bool kAdd>
void product_columns(Matrix a, Matrix b, Matrix c, int64_t rows, int64_t depth) {
  int64_t i = 0;
  for (; i + kRowsAtOnce <= rows; i += kRowsAtOnce)
    product_part<kRowsAtOnce, kVectors, kAdd>({a.row(i), a.stride}, b, {c.row(i), c.stride}, depth);
  for (; i < rows; ++i) product_part<1, kVectors, kAdd>({a.row(i), a.stride}, b, {c.row(i), c.stride}, depth);
}

// c (+)= a * b, of whole vectors of columns: b and c are padded to them.
template <bool kAdd>
void product(Matrix a, Matrix b, Matrix c, int64_t rows, int64_t columns, int64_t depth) {
  int64_t j = 0;
  constexpr int64_t kWide = int64_t{kVectorsAtOnce} * kLanes;
  for (; j + kWide <= columns; j += kWide)
    product_columns<kVectorsAtOnce, kAdd>(a, {b.at + j, b.stride}, {c.at + j, c.stride}, rows, depth);
  for (; j < columns; j += kLanes) product_columns<1, kAdd>(a, {b.at + j, b.stride}, {c.at + j, c.stride}, rows, depth);
}

inline int64_t padded(int64_t count) { return (count + kLanes - 1) / kLanes * kLanes; }

// A row as float32, times a factor, and zeros up to whole vectors.
template <class T>
void load_row(const T* from, int64_t count, float factor, float* to) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(to + i, mul(load(from + i), all(factor)));
  if (i < count) store(to + i, mul(load_part(from + i, count - i), all(factor)));
}

template <class T>
void store_row(const float* from, int64_t count, float factor, T* to) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(to + i, mul(load(from + i), all(factor)));
  if (i < count) store_part(to + i, mul(load(from + i), all(factor)), count - i);
}

// `to` = the transposed of rows x columns; its rows are as long as `to.stride`.
inline void transpose(Matrix from, int64_t rows, int64_t columns, Matrix to) {
  constexpr int64_t kSquare = 8;
  for (int64_t i = 0; i < rows; i += kSquare) {
    const int64_t last = i + kSquare < rows ? i + kSquare : rows;
    for (int64_t j = 0; j < columns; ++j)
      for (int64_t k = i; k < last; ++k) to.row(j)[k] = from.row(k)[j];
  }
}

}  // namespace
}  // namespace kw::cpu::KW_ISA
