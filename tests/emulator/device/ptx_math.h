// SPDX-License-Identifier: MIT
// Instructions on registers. Approximate functions are exact here, to the last bit but one: a kernel must not count on
// more than its bounds allow.
#pragma once

#include <math.h>

#include "emulated.h"

namespace ptx {

using namespace emulated;

template <class To, class From>
inline void mov_b32(To& to, From from) {
  to = bits<To>(from);
}
inline void mov_b32(u32& to, const Several<u16, 2>& from) { to = *from.at[0] | static_cast<u32>(*from.at[1]) << 16; }
inline void mov_b64(double& to, const Several<u32, 2>& from) {
  const u64 bits = *from.at[0] | static_cast<u64>(*from.at[1]) << 32;
  __builtin_memcpy(&to, &bits, sizeof to);
}
inline void mov_b32(const Several<u16, 2>& to, u32 from) {
  *to.at[0] = static_cast<u16>(from);
  *to.at[1] = static_cast<u16>(from >> 16);
}
inline void mov_u32(u32& to, u32 from) { to = from; }
inline void cvt_u32_u64(u32& to, u64 from) { to = static_cast<u32>(from); }
inline void setp_ne_u32(bool& to, u32 a, u32 b) { to = a != b; }
template <class T>
inline void selp_u32(u32& to, T yes, T no, bool which) {
  to = static_cast<u32>(which ? yes : no);
}

// Each digit of `which` names a byte; its highest bit asks for that byte's sign instead.
inline void prmt_b32(u32& to, u32 low, u32 high, u32 which) {
  const u64 bytes = static_cast<u64>(high) << 32 | low;
  to = 0;
  for (u32 i = 0; i < 4; ++i) {
    const u32 digit = which >> (4 * i) & 15, byte = static_cast<u32>(bytes >> (digit % 8 * 8)) & 0xff;
    to |= (digit < 8 ? byte : byte >> 7 != 0 ? 0xffu : 0u) << (8 * i);
  }
}

inline void xor_b32(u32& to, u32 a, u32 b) { to = a ^ b; }
inline void max_u16x2(u32& to, u32 a, u32 b) {
  const u32 low_a = a & 0xffffu, low_b = b & 0xffffu, high_a = a & ~0xffffu, high_b = b & ~0xffffu;
  to = (high_a > high_b ? high_a : high_b) | (low_a > low_b ? low_a : low_b);
}

// Bit by bit what the table says of a, b, c as an index.
inline void lop3_b32(u32& to, u32 a, u32 b, u32 c, u32 table) {
  to = 0;
  for (u32 i = 0; i < 32; ++i) {
    const u32 index = (a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1);
    to |= (table >> index & 1) << i;
  }
}

inline float without_subnormal(float value) {
  return fabsf(value) < 0x1p-126f ? copysignf(0.0f, value) : value;  // also of a NaN, which no comparison holds for
}

// Every NaN that comes of a sum or a product is this one.
inline float one_nan(float value) { return value != value ? bits<float>(0x7fffffffu) : value; }
inline void mul_rn_f32(float& to, float a, float b) { to = one_nan(a * b); }
inline void mul_rn_f64(double& to, double a, double b) { to = a * b; }
inline void add_rn_f32(float& to, float a, float b) { to = one_nan(a + b); }
inline void mul_ftz_f32(float& to, float a, float b) {
  to = without_subnormal(one_nan(without_subnormal(a) * without_subnormal(b)));
}

inline void rsqrt_approx_f32(float& to, float of) { to = static_cast<float>(1.0 / sqrt(static_cast<double>(of))); }
inline void rsqrt_approx_ftz_f32(float& to, float of) { rsqrt_approx_f32(to, without_subnormal(of)); }
inline void sqrt_approx_f32(float& to, float of) { to = sqrtf(of); }
inline void ex2_approx_f32(float& to, float of) { to = static_cast<float>(exp2(static_cast<double>(of))); }
inline void ex2_approx_ftz_f32(float& to, float of) {
  ex2_approx_f32(to, without_subnormal(of));
  to = without_subnormal(to);
}
inline void lg2_approx_f32(float& to, float of) { to = static_cast<float>(log2(static_cast<double>(of))); }
inline void rcp_approx_f32(float& to, float of) { to = 1.0f / of; }
inline void rcp_approx_ftz_f32(float& to, float of) { to = without_subnormal(1.0f / without_subnormal(of)); }

inline float float_of_half(u16 half) { return static_cast<float>(bits<_Float16>(half)); }
inline u16 half_of_float(float value) {
  return value != value ? static_cast<u16>(0x7fff) : bits<u16>(static_cast<_Float16>(value));
}
inline float float_of_bfloat(u16 bfloat) { return bits<float>(static_cast<u32>(bfloat) << 16); }

// To the nearest, of two equally near ones to the even: by comparing, unlike the kernels.
inline u16 bfloat_of_float(float value) {
  if (value != value) return 0x7fff;
  const u32 whole = bits<u32>(value);
  const u32 down = whole & 0xffff0000u, rest = whole & 0xffffu;
  const bool up = rest > 0x8000u || (rest == 0x8000u && (down >> 16 & 1) != 0);
  return static_cast<u16>((down >> 16) + (up ? 1 : 0));
}

inline void cvt_f32_f16(float& to, u16 from) { to = float_of_half(from); }
inline void cvt_rn_f16_f32(u16& to, float from) { to = half_of_float(from); }
inline void cvt_rn_bf16_f32(u16& to, float from) { to = bfloat_of_float(from); }
// The first of two operands goes into the upper half.
inline void cvt_rn_f16x2_f32(u32& to, float high, float low) {
  to = static_cast<u32>(half_of_float(high)) << 16 | half_of_float(low);
}
inline void cvt_rn_bf16x2_f32(u32& to, float high, float low) {
  to = static_cast<u32>(bfloat_of_float(high)) << 16 | bfloat_of_float(low);
}

// To the nearest, of two equally near ones to the even: by comparing, unlike the kernels. Beyond 448 is 448.
inline u32 e4m3_of_float(float value) {
  if (value != value) return 0x7f;
  const double size = fabs(static_cast<double>(value));
  auto number = [](u32 code) {
    return code < 8 ? code * 0x1p-9 : (8 + code % 8) * exp2(static_cast<int>(code / 8) - 10);
  };
  u32 code = 0;
  while (code < 0x7e && number(code + 1) <= size) ++code;
  if (code < 0x7e) {
    const double below = size - number(code), above = number(code + 1) - size;
    code += below > above || (below == above && code % 2 != 0);
  }
  return code | (bits<u32>(value) >> 24 & 0x80);
}
inline void cvt_rn_satfinite_e4m3x2_f32(u16& to, float high, float low) {
  to = static_cast<u16>(e4m3_of_float(high) << 8 | e4m3_of_float(low));
}
inline double number_of_e4m3(u32 code) {
  const u32 size = code & 0x7f, exponent = size >> 3, mantissa = size & 7;
  const double value = size == 0x7f    ? __builtin_nan("")
                       : exponent == 0 ? mantissa * 0x1p-9
                                       : (8 + mantissa) * exp2(static_cast<int>(exponent) - 10);
  return (code & 0x80) != 0 ? -value : value;
}
inline void cvt_rn_f16x2_e4m3x2(u32& to, u16 from) {
  auto half = [](u32 code) { return static_cast<u32>(half_of_float(static_cast<float>(number_of_e4m3(code)))); };
  to = half(from >> 8) << 16 | half(from & 0xff);
}

// `value` without what is below 2^-13 of the power of two of `size`, or of its own.
inline double few_bits(double value, double size) {
  if (!(size > 0.0 && size < __builtin_inf())) return value;
  const double unit = __builtin_ldexp(1.0, __builtin_ilogb(size) - 13);
  return __builtin_trunc(value / unit) * unit;
}

// Of e4m3 a tensor core keeps 14 bits: of products, beside the largest of them, and of what they add up to. A kernel
// that wants float32's sums must not leave many to it.
inline double short_sum(const double* left, const double* right, u32 depth, double before) {
  double largest = 0.0, sum = 0.0;
  for (u32 k = 0; k < depth; ++k) {
    const double size = __builtin_fabs(left[k] * right[k]);
    if (!(size <= largest)) largest = size;  // a NaN stays
  }
  for (u32 k = 0; k < depth; ++k) sum += few_bits(left[k] * right[k], largest);
  return few_bits(before + sum, __builtin_fabs(before + sum));
}

inline void cvt_u32_u16(u32& to, u16 from) { to = from; }

// f(a, b) or f(a, b, c) of both halves.
template <class F>
inline u32 of_halves(F f, u32 a, u32 b, u32 c = 0) {
  auto half = [](u32 pair, u32 shift) { return static_cast<double>(float_of_half(static_cast<u16>(pair >> shift))); };
  auto one = [&](u32 shift) {
    return static_cast<u32>(half_of_float(static_cast<float>(f(half(a, shift), half(b, shift), half(c, shift)))));
  };
  return one(16) << 16 | one(0);
}
inline void add_f16x2(u32& to, u32 a, u32 b) {
  to = of_halves([](double x, double y, double) { return x + y; }, a, b);
}
inline void mul_f16x2(u32& to, u32 a, u32 b) {
  to = of_halves([](double x, double y, double) { return x * y; }, a, b);
}
inline void fma_rn_f16x2(u32& to, u32 a, u32 b, u32 c) {
  to = of_halves([](double x, double y, double z) { return x * y + z; }, a, b, c);
}

inline void dp4a_s32_s32(u32& to, u32 a, u32 b, u32 sum) {
  to = sum;
  for (u32 i = 0; i < 32; i += 8) {
    to += static_cast<u32>(static_cast<signed char>(a >> i) * static_cast<signed char>(b >> i));
  }
}

template <class T>
inline void setp_ne_b32(bool& to, u32 a, T b) {
  to = a != static_cast<u32>(b);
}

}  // namespace ptx
