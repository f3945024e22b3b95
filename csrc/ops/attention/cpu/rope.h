// SPDX-License-Identifier: MIT
// Rope: pairs of a row's elements are turned by its position. Included once for each instruction set.
#pragma once

#include "ops/attention/cpu/problem.h"
#include "ops/attention/cpu/product.h"

namespace kw::cpu::KW_ISA {
namespace {

constexpr int64_t kAngles = 512;  // that are float32 at one time

// Pairs of elements x[i], y[i].
template <class T>
void turn_halves(const T* x, const T* y, T* x_out, T* y_out, const float* cos, const float* sin, int64_t pairs) {
  for (int64_t i = 0; i < pairs; i += kLanes) {
    const int64_t n = pairs - i;
    const bool whole = n >= kLanes;
    const Vec a = whole ? load(x + i) : load_part(x + i, n), b = whole ? load(y + i) : load_part(y + i, n);
    const Vec c = whole ? load(cos + i) : load_part(cos + i, n), s = whole ? load(sin + i) : load_part(sin + i, n);
    const Vec first = mul_add(a, c, mul(mul(b, all(-1.0f)), s)), second = mul_add(b, c, mul(a, s));
    if (whole) {
      store(x_out + i, first);
      store(y_out + i, second);
    } else {
      store_part(x_out + i, first, n);
      store_part(y_out + i, second, n);
    }
  }
}

// Pairs of neighbours, by way of float32.
template <class T>
void turn_neighbours(const T* from, T* to, const float* cos, const float* sin, int64_t pairs) {
  float row[2 * kAngles];
  load_row(from, 2 * pairs, 1.0f, row);
  for (int64_t i = 0; i < pairs; ++i) {
    const float x = row[2 * i], y = row[2 * i + 1];
    row[2 * i] = x * cos[i] - y * sin[i];
    row[2 * i + 1] = y * cos[i] + x * sin[i];
  }
  store_row(row, 2 * pairs, 1.0f, to);
}

// Up to kAngles of the pairs of a row, from `first` on; `all` is how many the row has.
template <class T>
void turn_row(const T* from, T* to, const float* cos, const float* sin, int64_t first, int64_t pairs, int64_t all,
              bool interleaved) {
  if (interleaved) return turn_neighbours(from + 2 * first, to + 2 * first, cos, sin, pairs);
  const T *const x = from + first, *const y = x + all;
  turn_halves(x, y, to + first, to + first + all, cos, sin, pairs);
}

template <class T>
void turn(const AttentionProblem& a, int64_t position, float* row) {
  const int64_t at = (position < a.max_positions ? position : a.max_positions - 1) * a.rope_row;
  float cos[kAngles], sin[kAngles];
  load_row(static_cast<const T*>(a.cos) + at, a.pairs, 1.0f, cos);
  load_row(static_cast<const T*>(a.sin) + at, a.pairs, 1.0f, sin);
  turn_row(row, row, cos, sin, 0, a.pairs, a.pairs, a.interleaved);
}

}  // namespace
}  // namespace kw::cpu::KW_ISA
