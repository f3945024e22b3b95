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

// Four numbers of a word as two pairs of float16, and the factor that products of such numbers lack. Which number is in
// which pair is the instruction's affair: it is the same of all words.
struct E4m3Pairs {
  u32 pair[2];

#if defined(KW_HAS_FP8) && (defined(KW_HAS_CLUSTER) || defined(KW_HAS_FP8_MMA))  // as above
  static constexpr float kProducts = 1.0f;

  __device__ __forceinline__ explicit E4m3Pairs(u32 codes) {
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2; cvt.rn.f16x2.e4m3x2 %0, low; cvt.rn.f16x2.e4m3x2 %1, high; }"
        : "=r"(pair[0]), "=r"(pair[1])
        : "r"(codes));
  }
#else
  static constexpr float kProducts = 65536.0f;

  // The exponent's bits where float16 has them are 2^-8 of the number, subnormal ones too. A NaN, 0x7f, gets another
  // bit above them, with which it is one. A pair has every other number.
  __device__ __forceinline__ explicit E4m3Pairs(u32 codes) {
    const u32 signs = codes & 0x80808080u, sizes = codes & 0x7f7f7f7fu;
    const u32 wide = sizes | ((sizes + 0x01010101u) & 0x80808080u);
    pair[0] = (wide << 7 & 0x7f807f80u) | (signs << 8 & ~0x7f807f80u);
    pair[1] = (wide >> 1 & 0x7f807f80u) | (signs & ~0x7f807f80u);
  }
#endif
};

}  // namespace kw
