/* SPDX-License-Identifier: MIT */
/*
 * From a step as it was asked for to the numbers that change with it. Host and device do the same operations on
 * doubles, so that a step whose number lies in a GPU's memory has the bits of one that was launched with its number.
 */
#ifndef KW_OPTIM_NUMBERS_H
#define KW_OPTIM_NUMBERS_H

#include "ops/optim/code_table.h" /* KW_SHARED_FUNCTION */
#include "ops/optim/params.h"

#ifndef KW_DEVICE_DOUBLE /* the host's; of device code device/ptx/double.cuh */
namespace kw {
inline double multiply_rounded(double a, double b) { return a * b; }
} /* namespace kw */
#endif

namespace kw {

KW_SHARED_FUNCTION double optimizer_power(double base, long long exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2, base = multiply_rounded(base, base)) {
    if (exponent % 2) result = multiply_rounded(result, base);
  }
  return result;
}

/* Newton's steps from a float's root: exact to the last bit or two, and without libm. */
KW_SHARED_FUNCTION double optimizer_root(double value) {
  if (value == 0) return 0;
  if (!(value > 0)) return (value - value) / (value - value); /* NaN */
  double root = value > 1 ? value : 1;
#if defined(__CUDACC__) || defined(__clang__)
#pragma unroll 1
#endif
  for (int i = 0; i < 1100; ++i) {
    const double next = multiply_rounded(0.5, root + value / root);
    if (!(next < root)) break;
    root = next;
  }
  return root;
}

KW_SHARED_FUNCTION KwOptimizerMoves optimizer_moves(const KwOptimizerStep& s) {
  KwOptimizerMoves m{};
  m.lr = static_cast<float>(s.lr);
  m.alpha = static_cast<float>(s.alpha);
  m.beta3 = static_cast<float>(s.beta3);
  m.rest3 = static_cast<float>(1 - s.beta3);
  m.correction1 = static_cast<float>(1 / (1 - optimizer_power(s.beta1, s.step)));
  m.correction2 = static_cast<float>(1 / optimizer_root(1 - optimizer_power(s.beta2, s.step)));
  m.decay = s.decay > 0 ? static_cast<float>(1 - multiply_rounded(s.lr, s.decay)) : 1.0f;
  m.first = s.step == 1;
  return m;
}

/* The number of a step, from the first one's and how many were taken since. */
KW_SHARED_FUNCTION long long optimizer_step_number(long long first, long long taken) {
  return static_cast<long long>(static_cast<unsigned long long>(first) + static_cast<unsigned long long>(taken));
}

} /* namespace kw */

#endif
