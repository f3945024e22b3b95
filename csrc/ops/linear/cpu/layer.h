// SPDX-License-Identifier: MIT
// Columns of a linear layer, plain or gated, on the CPU: four rows of the weight and two of x share what is loaded.
#pragma once

#include "cpu/simd.h"
#include "ops/linear/api/linear.h"
#include "ops/linear/host/linear.h"

namespace kw::cpu {

constexpr int64_t kColumns = 4, kRows = 2;

namespace KW_ISA {
namespace {

// exp(-v), of any v.
float exp_minus_one(float v) {
  float lane[kLanes];
  store(lane, exp(all(-v)));
  return lane[0];
}

// Half of 1 - erf(v / sqrt 2) for v >= 0, by Abramowitz and Stegun's 7.1.26, to 2^-23.
float upper_tail(float v) {
  const float t = 1.0f / (1.0f + 0.3275911f * 0.70710678f * v);
  const float p =
      t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
  return 0.5f * p * exp_minus_one(0.5f * v * v);
}

float activated(int32_t activation, float v) {
  const float positive = v < 0.0f ? 0.0f : v;
  switch (activation) {
    case KW_RELU:
      return positive;
    case KW_SQUARED_RELU:
      return positive * positive;
    case KW_SILU:
      return v / (1.0f + exp_minus_one(v));
    case KW_GELU:
      return v < 0.0f ? v * upper_tail(-v) : v - v * upper_tail(v);
    case KW_GELU_TANH:
      return v / (1.0f + exp_minus_one(1.5957691f * (v + 0.044715f * v * v * v)));
    default:
      return v;
  }
}

template <class T, bool kGated>
struct Layer {
  const Linear& a;

  const T* x(int64_t row) const { return static_cast<const T*>(a.x) + row * a.x_stride; }
  const T* weight(int64_t row) const { return static_cast<const T*>(a.weight) + row * a.weight_stride; }

  float with_bias(float sum, int64_t column) const {
    if (a.bias == nullptr) return sum;
    float bias[kLanes];
    store(bias, load_part(static_cast<const T*>(a.bias) + column, 1));
    return sum + bias[0];
  }

  // kM rows of x, kN of the weight.
  template <int64_t kM, int64_t kN>
  void products(int64_t row, int64_t column, float (&result)[kM][kN]) const {
    Vec sum[kM][kN];
    for (auto& of_row : sum) {
      for (Vec& one : of_row) one = zero();
    }
    const auto add_products = [&](auto read, int64_t at) {
      Vec left[kM];
      for (int64_t i = 0; i < kM; ++i) left[i] = read(x(row + i) + at);
      for (int64_t j = 0; j < kN; ++j) {
        const Vec right = read(weight(column + j) + at);
        for (int64_t i = 0; i < kM; ++i) sum[i][j] = mul_add(left[i], right, sum[i][j]);
      }
    };
    int64_t k = 0;
    for (; k + kLanes <= a.k; k += kLanes) add_products([](const T* p) { return load(p); }, k);
    if (k < a.k) add_products([&](const T* p) { return load_part(p, a.k - k); }, k);
    for (int64_t i = 0; i < kM; ++i) {
      for (int64_t j = 0; j < kN; ++j) result[i][j] = with_bias(total(sum[i][j]), column + j);
    }
  }

  template <int64_t kM, int64_t kN>
  void tile(int64_t row, int64_t column) const {
    float result[kM][kN], times[kM][kN] = {};
    products(row, column, result);
    if (kGated) products(row, a.n + column, times);
    for (int64_t i = 0; i < kM; ++i) {
      for (int64_t j = 0; j < kN; ++j) {
        const float value = activated(a.activation, result[i][j]);
        T* const to = static_cast<T*>(a.y) + (row + i) * a.y_stride + column + j;
        store_part(to, all(kGated ? value * times[i][j] : value), 1);
      }
    }
  }

  void columns(int64_t begin, int64_t end) const {
    for (int64_t column = begin; column < end;) {
      const bool four = end - column >= kColumns;
      int64_t row = 0;
      for (; row + kRows <= a.m; row += kRows) four ? tile<kRows, kColumns>(row, column) : tile<kRows, 1>(row, column);
      for (; row < a.m; ++row) four ? tile<1, kColumns>(row, column) : tile<1, 1>(row, column);
      column += four ? kColumns : 1;
    }
  }
};

template <bool kGated>
void columns_of(const Linear& a, int64_t begin, int64_t end) {
  const int64_t first = begin * kColumns, last = end * kColumns < a.n ? end * kColumns : a.n;
  if (a.dtype == KW_FLOAT32) return Layer<float, kGated>{a}.columns(first, last);
  if (a.dtype == KW_FLOAT16) return Layer<Half, kGated>{a}.columns(first, last);
  return Layer<BFloat16, kGated>{a}.columns(first, last);
}

// Groups of columns are taken apart among threads: how many there are, and how many of them are worth waking one up.
[[maybe_unused]] int64_t column_groups(const Linear& a) { return (a.n + kColumns - 1) / kColumns; }

[[maybe_unused]] int64_t column_grain(const Linear& a) {
  constexpr int64_t kProducts = 131072;  // fewer take this thread less than another takes to wake up
  return 1 + kProducts / (a.m * (a.k + 1) * kColumns);
}

}  // namespace
}  // namespace KW_ISA

}  // namespace kw::cpu
