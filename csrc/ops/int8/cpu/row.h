// SPDX-License-Identifier: MIT
// A row into 8-bit integers on the CPU, by blocks of float32 that stay in the first cache. Included once for each
// instruction set, by each operator that quantizes rows.
#pragma once

#include <string.h>

#include "cpu/simd.h"
#include "ops/int8/host/quantize_rows_int8.h"

namespace kw::cpu::KW_ISA {
namespace {

constexpr int64_t kBlock = 1024;  // elements

template <class T>
void widen(const T* from, float* to, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(to + i, load(from + i));
  if (i < count) store_part(to + i, load_part(from + i, count - i), count - i);
}

uint32_t bits_of_value(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

float value_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// As whole numbers they compare as sizes do, and a NaN is larger than all.
uint32_t largest(const float* x, int64_t count, uint32_t most) {
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t size = bits_of_value(x[i]) & 0x7fffffffu;
    most = size > most ? size : most;
  }
  return most;
}

float squares(const float* x, int64_t count) {
  Vec sum = zero();
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) sum = mul_add(load(x + i), load(x + i), sum);
  if (i < count) sum = mul_add(load_part(x + i, count - i), load_part(x + i, count - i), sum);
  return total(sum);
}

// The product is rounded before it becomes a whole number: compilers may not make one operation of both. Whole numbers
// stand in x on the way, so that either loop is one of vectors.
void round_all(float* x, float by, int64_t count, int8_t* codes) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(x + i, nearest(mul(load(x + i), all(by))));
  if (i < count) store_part(x + i, nearest(mul(load_part(x + i, count - i), all(by))), count - i);
  for (i = 0; i < count; ++i) codes[i] = static_cast<int8_t>(static_cast<int32_t>(x[i]));
}

int32_t sum_of(const int8_t* codes, int64_t count) {
  int32_t sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += codes[i];
  return sum;
}

template <class T>
struct Row {
  const QuantizeRows& a;
  int64_t row;

  const T* x() const { return static_cast<const T*>(a.x) + row * a.x_stride; }

  // So many elements of the row from `at` on: without outliers, and times the weight.
  void values(int64_t at, int64_t count, float* to) const {
    widen(x() + at, to, count);
    if (a.threshold > 0.0f) cut(at, count, to);
    if (a.weight == nullptr) return;
    float factor[kBlock];
    if (a.weight_dtype == KW_FLOAT32) {
      widen(static_cast<const float*>(a.weight) + at, factor, count);
    } else {
      widen(static_cast<const T*>(a.weight) + at, factor, count);
    }
    for (int64_t i = 0; i < count; ++i) to[i] *= factor[i];
  }

  void cut(int64_t at, int64_t count, float* to) const {
    const uint32_t bound = bits_of_value(a.threshold), most = largest(to, count, 0);
    if (most < bound) return;
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t size = bits_of_value(to[i]) & 0x7fffffffu;
      if (size < bound || size > 0x7f800000u) continue;
      to[i] = 0.0f;
      __atomic_store_n(a.outliers + at + i, 1, __ATOMIC_RELAXED);  // others may say it of the same column
    }
  }

  float rstd() const {
    float wide[kBlock];
    double sum = 0.0;
    for (int64_t at = 0; at < a.cols; at += kBlock) {
      const int64_t count = a.cols - at < kBlock ? a.cols - at : kBlock;
      widen(x() + at, wide, count);
      sum += static_cast<double>(squares(wide, count));
    }
    return static_cast<float>(1.0 / root(sum / static_cast<double>(a.cols) + static_cast<double>(a.eps)));
  }

  void run() const {
    float wide[kBlock];
    uint32_t most = 0;
    for (int64_t at = 0; at < a.cols; at += kBlock) {
      const int64_t count = a.cols - at < kBlock ? a.cols - at : kBlock;
      values(at, count, wide);
      most = largest(wide, count, most);
    }
    const float factor = a.eps >= 0.0f ? rstd() : 1.0f;
    float absmax = value_of_bits(most) * factor;
    absmax = absmax < a.clamp ? a.clamp : absmax;
    const uint32_t bits = bits_of_value(absmax);
    a.absmax[row] = absmax;
    int8_t* const codes = a.codes + row * a.codes_stride;
    if (bits < 0x00800000u || bits >= 0x7f800000u) {
      if (a.cols > 0) memset(codes, 0, static_cast<size_t>(a.cols));
      if (a.sums != nullptr) a.sums[row] = 0;
      return;
    }
    const float reciprocal_of_most = 1.0f / absmax, scale = 127.0f * reciprocal_of_most, by = scale * factor;
    int32_t sum = 0;
    for (int64_t at = 0; at < a.cols; at += kBlock) {
      const int64_t count = a.cols - at < kBlock ? a.cols - at : kBlock;
      if (a.cols > kBlock) values(at, count, wide);
      round_all(wide, by, count, codes + at);
      if (a.sums != nullptr) sum += sum_of(codes + at, count);
    }
    if (a.sums != nullptr) a.sums[row] = sum;
  }
};

inline void quantize_row(const QuantizeRows& a, int64_t row) {
  if (a.dtype == KW_FLOAT32) return Row<float>{a, row}.run();
  if (a.dtype == KW_FLOAT16) return Row<Half>{a, row}.run();
  Row<BFloat16>{a, row}.run();
}

}  // namespace
}  // namespace kw::cpu::KW_ISA
