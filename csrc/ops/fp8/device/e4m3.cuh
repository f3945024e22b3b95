// SPDX-License-Identifier: MIT
// From float32 to e4m3 and back: four exponent bits with a bias of 7, three of mantissa; 448 is the largest number,
// 2^-9 the smallest, and 0x7f NaN.
#pragma once

#include "device/ptx/math.cuh"
#include "device/types.cuh"

namespace kw {

// To nearest even, by integers: of numbers up to 448 what the instruction gives, and 0x7f of a NaN.
__device__ __forceinline__ u32 e4m3_by_integers(float value) {
  const u32 bits = bits_of_float(value), size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) return 0x7fu;
  const u32 usual = ((size + 0x7ffffu + (size >> 20 & 1)) >> 20) - (120u << 3);
  // Adding 2^14 leaves no bits below 2^-9.
  const u32 small = bits_of_float(add_rounded(float_of_bits(size), 16384.0f)) - 0x46800000u;
  return (size < 0x3c800000u ? small : usual) | (bits >> 24 & 0x80u);
}

// Two numbers from -448 to 448, or NaN, which loses its sign.
__device__ __forceinline__ u32 e4m3_pair(float low, float high) {
#if defined(KW_HAS_FP8) && defined(KW_HAS_CLUSTER)  // an image for 8.9 alone, which has it too, would not pay
  u32 pair;
  asm("{ .reg .b16 both; cvt.rn.satfinite.e4m3x2.f32 both, %1, %2; cvt.u32.u16 %0, both; }"
      : "=r"(pair)
      : "f"(high), "f"(low));
  return pair;
#else
  return e4m3_by_integers(low) | e4m3_by_integers(high) << 8;
#endif
}

// The exponent's bits where a float32 has them are 2^-120 of the number, subnormal ones too.
__device__ __forceinline__ float float_of_e4m3(u32 code) {
  const u32 size = code & 0x7fu;
  const float value = multiply_rounded(float_of_bits(size << 20), 1.329227995784916e36f);
  return float_of_bits((size == 0x7fu ? 0x7fffffffu : bits_of_float(value)) | (code & 0x80u) << 24);
}

}  // namespace kw
