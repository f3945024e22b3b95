// SPDX-License-Identifier: MIT
// From the elements of a row to its codes of 8 bits: what does not depend on who has the row.
#pragma once

#include "device/units.cuh"

namespace kw {

__device__ __forceinline__ float rstd_of(float squares, i64 cols, float eps) {
  return rsqrt_approx(squares * reciprocal_approx(static_cast<float>(cols)) + eps);
}

__device__ __forceinline__ float absmax_of(u32 most, float rstd, float clamp) {
  const float absmax = multiply_rounded(float_of_bits(most), rstd);
  return absmax < clamp ? clamp : absmax;
}

// A mask of codes: none are kept where absmax, of these bits, is subnormal, infinite or NaN.
__device__ __forceinline__ u32 kept_of(u32 absmax) {
  return absmax >= 0x00800000u && absmax < 0x7f800000u ? 0xffffffffu : 0;
}

// What elements are multiplied by to be codes.
__device__ __forceinline__ float factor_of(float absmax, float rstd) {
  return multiply_rounded(multiply_rounded(127.0f, reciprocal_approx(absmax)), rstd);
}

// Adding 1.5 * 2^23 rounds to a whole number and leaves it in the lowest bits, of which the last eight are the code.
__device__ __forceinline__ u32 four_codes(const float* value, float by) {
  u32 bits[4];
#pragma unroll
  for (u32 j = 0; j < 4; ++j) bits[j] = bits_of_float(add_rounded(multiply_rounded(value[j], by), 12582912.0f));
  const u32 low = byte_permute(bits[0], bits[1], 0x0040), high = byte_permute(bits[2], bits[3], 0x0040);
  return byte_permute(low, high, 0x5410);
}

// The weight of a norm before rows of T: of T itself or of float32.
template <class T>
struct RowWeight {
  static constexpr u32 kCount = 16 / T::kSize;
  const char* weight;
  i64 cols;
  int vectors;  // of T, on 16 bytes, and rows have whole units
  int is_float;

  __device__ __forceinline__ float at(i64 column) const {
    u32 word[1];
    if (column >= cols) return 0.0f;
    if (is_float || T::kSize == 4) {
      load<4>(weight + column * 4, word);
      return float_of_bits(word[0]);
    }
    load<2>(weight + column * 2, word);
    if constexpr (T::kSize == 2) return T::low(word[0]);
    return 0.0f;
  }

  __device__ __forceinline__ void multiply(i64 column, float (&value)[kCount]) const {
    if (vectors && column < cols) {
      Unit<T, 16> part;
      float factor[kCount];
      load<16>(weight + column * T::kSize, part.word);
      part.unpack(factor);
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) value[i] = multiply_rounded(value[i], factor[i]);
      return;
    }
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) value[i] = multiply_rounded(value[i], at(column + i));
  }

  // The same in little code, for where it stands often; `vectors` may be of either type.
  __device__ __forceinline__ void multiply_in_loops(i64 column, float (&value)[kCount]) const {
    if (T::kSize == 4 || !is_float) {
      Unit<T, 16> part;
      float factor[kCount];
      load_unit(weight, column, cols, vectors != 0, part);
      part.unpack(factor);
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) value[i] = multiply_rounded(value[i], factor[i]);
      return;
    }
#pragma unroll
    for (u32 first = 0; first < kCount; first += 4) {
      Unit<Float32, 16> part;
      float factor[4];
      load_unit(weight, column + first, cols, vectors != 0, part);
      part.unpack(factor);
#pragma unroll
      for (u32 i = 0; i < 4; ++i) value[first + i] = multiply_rounded(value[first + i], factor[i]);
    }
  }
};

}  // namespace kw
