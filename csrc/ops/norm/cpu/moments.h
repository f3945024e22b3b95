// SPDX-License-Identifier: MIT
// Mean and variance of a row in one pass over memory, right also where the mean is much larger than the deviations.
//
// The deviations are taken from an estimate of the mean, and corrected afterwards: var = mean(d^2) - mean(d)^2. What
// cancels there is small: an estimate from a 16th of the row is off by at most four standard deviations whatever the
// row holds, so that float32 sums lose a factor of 17 at worst. Deviations also keep their digits where h - mean in
// float32, with a rounded mean, would not.
#pragma once

#include "ops/norm/cpu/rows.h"

namespace kw::cpu::KW_ISA {
namespace {

struct ElementSum {
  Vec s = zero();

  void take(Vec h) { s = add(s, h); }
  void take_part(Vec h, int64_t) { take(h); }
  void join(const ElementSum& other) { s = add(s, other.s); }
};

// About the mean of a row: that of its first 256 elements, or of a 16th of it.
template <class In>
float estimate_mean(const In& in, int64_t cols) {
  const int64_t share = cols / 16 < 256 ? 256 : cols / 16;
  const int64_t count = share < cols ? share : cols;
  return total(sum_block(in, ElementSum{}, 0, count).s) / static_cast<float>(count);
}

struct DeviationSums {
  Vec minus_estimate;
  Vec s = zero(), squares = zero();

  void take(Vec h) { take_deviation(add(h, minus_estimate)); }
  void take_part(Vec h, int64_t n) { take_deviation(first_lanes(add(h, minus_estimate), n)); }
  void take_deviation(Vec d) {
    s = add(s, d);
    squares = mul_add(d, d, squares);
  }
  void join(const DeviationSums& other) {
    s = add(s, other.s);
    squares = add(squares, other.squares);
  }
  void add_to(double* totals) const {
    add_total(totals, s);
    add_total(totals + 1, squares);
  }
};

// The mean is estimate + offset.
struct Moments {
  float estimate;
  double offset, variance;

  double mean() const { return static_cast<double>(estimate) + offset; }
};

inline Moments moments_of(float estimate, double sum, double squares, int64_t cols) {
  const auto n = static_cast<double>(cols);
  const double offset = sum / n, variance = squares / n - offset * offset;
  return {estimate, offset, variance < 0 ? 0 : variance};
}

template <class In>
Moments moments(const In& in, int64_t cols) {
  const float estimate = estimate_mean(in, cols);
  double totals[2] = {};
  sum_row(in.first(), DeviationSums{all(-estimate)}, cols, totals);
  return moments_of(estimate, totals[0], totals[1], cols);
}

inline double rstd_of(double variance, float eps) { return 1.0 / root(variance + static_cast<double>(eps)); }

}  // namespace
}  // namespace kw::cpu::KW_ISA
