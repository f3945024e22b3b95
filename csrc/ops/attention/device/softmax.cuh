// SPDX-License-Identifier: MIT
// The softmax of rows whose scores come a tile at a time: what there is so far shrinks as the largest score grows.
#pragma once

#include "device/ptx/logarithm.cuh"
#include "device/ptx/math.cuh"
#include "device/reduce.cuh"

namespace kw {

// The largest score and the sum of a row so far. Sums are of a lane's own scores until the end.
struct RowState {
  float most, sum;
};

__device__ __forceinline__ float minus_infinity() { return float_of_bits(0xff800000u); }

// A row's sink is a score before all others; one lane of four has it.
__device__ __forceinline__ RowState row_start(const float* sinks, int head, float multiplier) {
  constexpr float kLog2E = 1.4426950408889634f;
  if (sinks == nullptr) return {minus_infinity(), 0.0f};
  const float sink = sinks[head];
  return {sink * (kLog2E / multiplier), threadIdx.x % 4 == 0 && sink != minus_infinity() ? 1.0f : 0.0f};
}

// A lane's scores of two rows become powers of 2 below the rows' largest, times 2^kRaised; `shrink`: what there is so
// far is to be multiplied by.
template <int kRaised = 0, u32 kCount>
__device__ __forceinline__ void soften(float (&s)[kCount], RowState (&row)[2], float (&shrink)[2], float multiplier) {
#pragma unroll
  for (u32 half = 0; half < 2; ++half) {
    float most = row[half].most;
#pragma unroll
    for (u32 i = 0; i < kCount / 2; ++i) most = fmaxf(most, s[i / 2 * 4 + half * 2 + i % 2]);
    most = fmaxf(most, shuffle_xor(most, 1));
    most = fmaxf(most, shuffle_xor(most, 2));
    const float base = most == minus_infinity() ? 0.0f : most * multiplier;
    shrink[half] = exp2_approx(fmaf(row[half].most, multiplier, -base));
    float sum = row[half].sum * shrink[half];
#pragma unroll
    for (u32 i = 0; i < kCount / 2; ++i) {
      float& value = s[i / 2 * 4 + half * 2 + i % 2];
      if constexpr (kRaised == 0) {
        value = exp2_approx(fmaf(value, multiplier, -base));
      } else {
        value = exp2_approx(fmaf(value, multiplier, static_cast<float>(kRaised) - base));
      }
      sum += value;
    }
    row[half] = {most, sum};
  }
}

// Two rows' values, each by its own.
template <u32 kCount>
__device__ __forceinline__ void scale_rows(float (&o)[kCount], const float (&by)[2]) {
#pragma unroll
  for (u32 i = 0; i < kCount; ++i) o[i] *= by[i / 2 % 2];
}

// What a row is to be multiplied by at the end, and the logarithm of its sum, which is 2^kRaised times what it stands
// for.
template <int kRaised = 0>
__device__ __forceinline__ float row_end(const RowState& row, float multiplier, float* lse) {
  constexpr float kLn2 = 0.6931471805599453f;
  float sum = row.sum;
  sum += shuffle_xor(sum, 1);
  sum += shuffle_xor(sum, 2);
  if constexpr (kRaised == 0) {
    *lse = sum == 0.0f ? minus_infinity() : (row.most * multiplier + log2_approx(sum)) * kLn2;
  } else {
    const float size = log2_approx(sum) - static_cast<float>(kRaised);
    *lse = sum == 0.0f ? minus_infinity() : (row.most * multiplier + size) * kLn2;
  }
  return sum == 0.0f ? 0.0f : reciprocal_approx(sum);
}

}  // namespace kw
