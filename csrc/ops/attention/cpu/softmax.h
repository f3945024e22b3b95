// SPDX-License-Identifier: MIT
// The softmax of a row of scores that come a tile at a time. Included once for each instruction set.
#pragma once

#include "ops/attention/cpu/scores.h"

namespace kw::cpu::KW_ISA {
namespace {

inline float exp_of(float v) {
  float lane[kLanes];
  store(lane, exp(all(v)));
  return lane[0];
}

// The natural logarithm of a positive number that is no subnormal, to float32's precision.
inline float log_of(float v) {
  uint32_t bits;
  memcpy(&bits, &v, sizeof bits);
  if (bits >= 0x7f800000u) return v;          // infinity and NaN
  const uint32_t moved = bits - 0x3f3504f3u;  // so that the mantissa is from sqrt(1/2) to sqrt(2)
  const int32_t exponent = static_cast<int32_t>(moved) >> 23;
  bits -= static_cast<uint32_t>(exponent) << 23;
  float mantissa;
  memcpy(&mantissa, &bits, sizeof mantissa);
  const double m = mantissa, t = (m - 1) / (m + 1), s = t * t;
  const double series = 1 + s * (1.0 / 3 + s * (1.0 / 5 + s * (1.0 / 7 + s * (1.0 / 9 + s / 11))));
  return static_cast<float>(exponent * 0.693147180559945309 + 2 * t * series);
}

// Numbers lane by lane: comparisons that NaN loses, as max instructions have them.
inline float biggest(const float* scores, int64_t width) {
  float most[kLanes];
  for (int l = 0; l < kLanes; ++l) most[l] = kNever;
  for (int64_t i = 0; i < width; i += kLanes)
    for (int l = 0; l < kLanes; ++l) most[l] = scores[i + l] > most[l] ? scores[i + l] : most[l];
  float found = kNever;
  for (const float one : most) found = one > found ? one : found;
  return found;
}

// exp(scores - base) in place, and their sum.
inline float exponentials(float* scores, int64_t width, float base) {
  Vec sum = zero();
  for (int64_t i = 0; i < width; i += kLanes) {
    const Vec p = exp(add(load(scores + i), all(-base)));
    store(scores + i, p);
    sum = add(sum, p);
  }
  return total(sum);
}

struct RowSums {
  float most = kNever, sum = 0;

  // A sink counts like a score of a key without a value.
  void begin(const AttentionProblem& a, int64_t head) {
    most = a.sinks == nullptr ? kNever : a.sinks[head];
    sum = most == kNever ? 0.0f : 1.0f;
  }

  // Scores become their exponentials; what was summed before is to be multiplied by the result.
  float add_tile(float* scores, int64_t width) {
    const float found = biggest(scores, width), now = found > most ? found : most;
    const float base = now == kNever ? 0.0f : now;  // a NaN among scores that are all out of sight stays one
    const float factor = most == now ? 1.0f : most == kNever ? 0.0f : exp_of(most - base);
    sum = sum * factor + exponentials(scores, width, base);
    most = now;
    return factor;
  }

  float inverse() const { return sum == 0 ? 0.0f : 1.0f / sum; }
  float lse() const { return sum == 0 ? kNever : (most == kNever ? 0.0f : most) + log_of(sum); }
};

}  // namespace
}  // namespace kw::cpu::KW_ISA
