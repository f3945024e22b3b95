// SPDX-License-Identifier: MIT
// Conversions and functions of one value, one wrapper an instruction. No rounding happens to the way in: every
// float16 and bfloat16 is a float32.
#pragma once

#include "device/types.cuh"

namespace kw {

__device__ __forceinline__ float float_of_bits(u32 bits) {
  float value;
  asm("mov.b32 %0, %1;" : "=f"(value) : "r"(bits));
  return value;
}

__device__ __forceinline__ u32 bits_of_float(float value) {
  u32 bits;
  asm("mov.b32 %0, %1;" : "=r"(bits) : "f"(value));
  return bits;
}

// Four of the eight bytes of low and high, as the four digits of `which` say, the last digit's first.
__device__ __forceinline__ u32 byte_permute(u32 low, u32 high, u32 which) {
  u32 word;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(word) : "r"(low), "r"(high), "r"(which));
  return word;
}

// Of each half, as an integer, the larger. One instruction for both came with clusters.
__device__ __forceinline__ u32 larger_halves(u32 a, u32 b) {
#ifdef KW_HAS_CLUSTER
  u32 larger;
  asm("max.u16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
  return larger;
#else
  const u32 low_a = a << 16, low_b = b << 16, low = low_a > low_b ? low_a : low_b;
  return byte_permute(low, a > b ? a : b, 0x7632);
#endif
}

// 1 / sqrt(value) to 2^-22.9.
__device__ __forceinline__ float rsqrt_approx(float value) {
  float result;
  asm("rsqrt.approx.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
}

// 2^value to 2^-22, subnormal results too.
__device__ __forceinline__ float exp2_approx(float value) {
  float result;
  asm("ex2.approx.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
}

// 1 / value to an ulp.
__device__ __forceinline__ float reciprocal_approx(float value) {
  float result;
  asm("rcp.approx.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
}

// The same where neither value nor result is subnormal, in one instruction.
__device__ __forceinline__ float reciprocal_of_normal(float value) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
}

// Subnormal factors and products are 0.
__device__ __forceinline__ float multiply_flushed(float a, float b) {
  float product;
  asm("mul.ftz.f32 %0, %1, %2;" : "=f"(product) : "f"(a), "f"(b));
  return product;
}

// A product and a sum that compilers do not make one operation of, which would round once.
__device__ __forceinline__ float multiply_rounded(float a, float b) {
  float product;
  asm("mul.rn.f32 %0, %1, %2;" : "=f"(product) : "f"(a), "f"(b));
  return product;
}

__device__ __forceinline__ float add_rounded(float a, float b) {
  float sum;
  asm("add.rn.f32 %0, %1, %2;" : "=f"(sum) : "f"(a), "f"(b));
  return sum;
}

__device__ __forceinline__ float float_of_half_low(u32 pair) {
  float value;
  asm("{ .reg .b16 lo, hi; mov.b32 {lo, hi}, %1; cvt.f32.f16 %0, lo; }" : "=f"(value) : "r"(pair));
  return value;
}

__device__ __forceinline__ float float_of_half_high(u32 pair) {
  float value;
  asm("{ .reg .b16 lo, hi; mov.b32 {lo, hi}, %1; cvt.f32.f16 %0, hi; }" : "=f"(value) : "r"(pair));
  return value;
}

__device__ __forceinline__ u32 half_pair(float low, float high) {
  u32 pair;
#ifdef KW_HAS_BF16_CVT  // the conversions of two values at once came together
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
#else
  asm("{ .reg .b16 lo, hi; cvt.rn.f16.f32 lo, %1; cvt.rn.f16.f32 hi, %2; mov.b32 %0, {lo, hi}; }"
      : "=r"(pair)
      : "f"(low), "f"(high));
#endif
  return pair;
}

// Rounds to nearest even by integers, as cvt.rn.bf16.f32 does: a NaN becomes 0x7fff.
__device__ __forceinline__ u32 bfloat_by_integers(float value) {
  const u32 bits = bits_of_float(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fffu;
  return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

__device__ __forceinline__ u32 bfloat_pair(float low, float high) {
#ifdef KW_HAS_BF16_CVT
  u32 pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return bfloat_by_integers(low) | (bfloat_by_integers(high) << 16);
#endif
}

}  // namespace kw
