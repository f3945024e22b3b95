// SPDX-License-Identifier: MIT
// AVX2 with FMA and F16C: 8 lanes. Included by simd.h alone.
#pragma once

#if !defined(__AVX2__) || !defined(__FMA__) || !defined(__F16C__)
#error "KW_ISA=avx2 needs the flags -mavx2 -mfma -mf16c: csrc/cpu/runtime/isa.cpp checks the CPU for these three"
#endif

#include <immintrin.h>

namespace kw::cpu::avx2 {

constexpr int kLanes = 8;

using Vec = __m256;

struct Two {
  Vec a, b;
};

inline Vec zero() { return _mm256_setzero_ps(); }
inline Vec all(float value) { return _mm256_set1_ps(value); }
inline Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
inline Vec mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
inline Vec mul_add(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }

inline float total(Vec v) {
  __m128 r = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  r = _mm_add_ps(r, _mm_movehl_ps(r, r));
  return _mm_cvtss_f32(_mm_add_ss(r, _mm_movehdup_ps(r)));
}

inline double root(double value) { return _mm_cvtsd_f64(_mm_sqrt_sd(_mm_setzero_pd(), _mm_set_sd(value))); }
inline Vec root(Vec v) { return _mm256_sqrt_ps(v); }

inline Vec within(Vec v, float low, float high) {
  return _mm256_min_ps(all(high), _mm256_max_ps(all(low), v));  // of a NaN and a number, these give the second operand
}
inline Vec minus_size(Vec v) { return _mm256_or_ps(v, all(-0.0f)); }
inline Vec where_negative(Vec v, Vec a, Vec b) { return _mm256_blendv_ps(b, a, v); }
inline Vec reciprocal(Vec v) { return _mm256_div_ps(all(1.0f), v); }
inline Vec nearest(Vec v) { return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }

inline Vec power_of_two(__m256i n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

// In two steps, each within the exponents of a float; only the second can round.
inline Vec times_power(Vec v, Vec n) {
  const __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1);
  return mul(mul(v, power_of_two(half)), power_of_two(_mm256_sub_epi32(whole, half)));
}

inline Vec load(const float* p) { return _mm256_loadu_ps(p); }

inline Vec load(const Half* p) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }

inline Vec load(const BFloat16* p) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

inline __m128i half_bits(Vec v) { return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }

inline __m128i bfloat16_bits(Vec v) {
  const __m256i bits = _mm256_castps_si256(v);
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i step = _mm256_andnot_si256(nan, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_and_si256(nan, _mm256_set1_epi32(0x400000));
  const __m256i wide = _mm256_or_si256(_mm256_add_epi32(bits, step), quiet);
  const __m256i upper = _mm256_set1_epi64x(0x0f0e0b0a07060302);  // of each 128 bits, into both of their halves
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(wide, upper), 0x08);
  return _mm256_castsi256_si128(packed);
}

inline void store(float* p, Vec v) { _mm256_storeu_ps(p, v); }
inline void store(Half* p, Vec v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), half_bits(v)); }
inline void store(BFloat16* p, Vec v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bfloat16_bits(v)); }

// The even elements in one vector and the odd ones in the other: a shift or a mask each, where neighbours would have to
// be permuted.
inline Two load_two(const BFloat16* p) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(bits, 16)), _mm256_castsi256_ps(_mm256_and_si256(bits, upper))};
}

// float32 in that order.
inline Two load_two_as(const BFloat16*, const float* p) {
  const __m256 first = _mm256_loadu_ps(p), second = _mm256_loadu_ps(p + kLanes);
  const __m256 low = _mm256_permute2f128_ps(first, second, 0x20), high = _mm256_permute2f128_ps(first, second, 0x31);
  return {_mm256_shuffle_ps(low, high, 0x88), _mm256_shuffle_ps(low, high, 0xdd)};
}

// Back from it.
inline void store_two_as(const BFloat16*, float* p, Two v) {
  const __m256 low = _mm256_unpacklo_ps(v.a, v.b), high = _mm256_unpackhi_ps(v.a, v.b);
  _mm256_storeu_ps(p, _mm256_permute2f128_ps(low, high, 0x20));
  _mm256_storeu_ps(p + kLanes, _mm256_permute2f128_ps(low, high, 0x31));
}

// NaN with no bits past those of a bfloat16, which rounding would carry into its sign.
inline Vec short_nan(Vec v) {
  const __m256 upper = _mm256_and_ps(v, _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(0xffff0000u))));
  const __m256 quiet = _mm256_or_ps(upper, _mm256_castsi256_ps(_mm256_set1_epi32(0x400000)));
  return _mm256_blendv_ps(v, quiet, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
}

// To nearest even, in the upper half of each lane. A NaN without bits below stays as it is.
inline __m256i upper_rounded(Vec v) {
  const __m256i bits = _mm256_castps_si256(v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  return _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
}

inline void store_two(BFloat16* p, Two v) {
  if (__builtin_expect(_mm256_movemask_ps(_mm256_cmp_ps(v.a, v.b, _CMP_UNORD_Q)) != 0, 0)) {
    v = {short_nan(v.a), short_nan(v.b)};
  }
  const __m256i even = _mm256_srli_epi32(upper_rounded(v.a), 16);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_blend_epi16(even, upper_rounded(v.b), 0xaa));
}

}  // namespace kw::cpu::avx2
