// SPDX-License-Identifier: MIT
// AVX-512 F, BW, DQ and VL: 16 lanes and masked access. Included by simd.h alone.
#pragma once

#if !defined(__AVX512F__) || !defined(__AVX512BW__) || !defined(__AVX512DQ__) || !defined(__AVX512VL__)
#error \
    "KW_ISA=avx512 needs the flags -mavx512f -mavx512bw -mavx512dq -mavx512vl: csrc/cpu/runtime/isa.cpp checks the CPU for these"
#endif

// GCC 12's header initialises its "undefined" vectors with themselves, and warns of that wherever they are inlined.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#else
#include <immintrin.h>
#endif

namespace kw::cpu::avx512 {

constexpr int kLanes = 16;

using Vec = __m512;

struct Two {
  Vec a, b;
};

inline Vec zero() { return _mm512_setzero_ps(); }
inline Vec all(float value) { return _mm512_set1_ps(value); }
inline Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
inline Vec mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
inline Vec mul_add(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
inline float total(Vec v) { return _mm512_reduce_add_ps(v); }

inline double root(double value) { return _mm_cvtsd_f64(_mm_sqrt_sd(_mm_setzero_pd(), _mm_set_sd(value))); }
inline Vec root(Vec v) { return _mm512_sqrt_ps(v); }

inline Vec within(Vec v, float low, float high) {
  return _mm512_min_ps(all(high), _mm512_max_ps(all(low), v));  // of a NaN and a number, these give the second operand
}
inline Vec minus_size(Vec v) { return _mm512_or_ps(v, all(-0.0f)); }
inline Vec where_below(Vec v, float bound, Vec a, Vec b) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(v, all(bound), _CMP_LT_OQ), b, a);
}
inline Vec where_negative(Vec v, Vec a, Vec b) {
  return _mm512_mask_blend_ps(_mm512_movepi32_mask(_mm512_castps_si512(v)), b, a);
}

// A quarter of a division's time: 14 bits, and a step of Newton's that doubles them.
inline Vec reciprocal(Vec v) {
  const Vec r = _mm512_rcp14_ps(v);
  return _mm512_fmadd_ps(r, _mm512_fnmadd_ps(v, r, all(1.0f)), r);
}

inline Vec nearest(Vec v) { return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline Vec times_power(Vec v, Vec n) { return _mm512_scalef_ps(v, n); }

// 2^n * 2^(j / 32) * exp(r): adding `whole` rounds v / ln 2 to 32nds, and leaves j in the lowest bits, where the
// permutation looks; scalef takes of n what is whole. r is within ln 2 / 64: there 1 + r * (1 + r / 2), with its error
// spread over the range, is off by 2^-24, the table by half a unit, and n * ln 2 by 2^-21 at most.
#define KW_SIMD_EXP_SHORT
alignas(64) constexpr float kPowers[32] = {
    1.0f,        1.0218972f,  1.04427373f, 1.06714046f, 1.09050775f, 1.1143868f,  1.13878858f, 1.1637249f,
    1.18920708f, 1.21524739f, 1.24185777f, 1.26905096f, 1.29683959f, 1.32523668f, 1.35425556f, 1.38390994f,
    1.41421354f, 1.44518077f, 1.47682619f, 1.50916445f, 1.54221082f, 1.5759809f,  1.61049032f, 1.64575553f,
    1.68179286f, 1.71861935f, 1.75625217f, 1.79470909f, 1.8340081f,  1.87416768f, 1.91520655f, 1.95714414f};

// 2^(j / 32), n and r, of v / ln 2 to 32nds in the lowest bits of t.
struct Parts {
  Vec power, n, r;
};

inline Parts parts(Vec t, Vec n, Vec r) {
  const __m512i j = _mm512_castps_si512(t);
  return {_mm512_permutex2var_ps(_mm512_load_ps(kPowers), j, _mm512_load_ps(kPowers + 16)), n, r};
}

inline Parts parts_of(Vec v) {
  const Vec whole = all(0x1.8p18f), t = _mm512_fmadd_ps(v, all(1.44269504f), whole), n = _mm512_sub_ps(t, whole);
  return parts(t, n, _mm512_fnmadd_ps(n, all(0.693147182f), v));
}

inline Parts parts_of_minus(Vec v) {
  const Vec whole = all(0x1.8p18f), t = _mm512_fnmadd_ps(v, all(1.44269504f), whole), n = _mm512_sub_ps(t, whole);
  return parts(t, n, _mm512_fnmsub_ps(n, all(0.693147182f), v));
}

inline Vec exp_of(const Parts& e) {
  const Vec p = mul(mul_add(e.r, all(0.5f), all(1.00001466f)), e.r);
  return _mm512_scalef_ps(mul_add(e.power, p, e.power), e.n);
}

inline Vec exp_short(Vec v) { return exp_of(parts_of(v)); }

#define KW_SIMD_EXP_MINUS
inline Vec exp_minus(Vec v) { return exp_of(parts_of_minus(v)); }

// One operation less than exp_minus and an addition.
inline Vec exp_minus_and_one(Vec v) {
  const Parts e = parts_of_minus(v);
  const Vec p = mul_add(mul_add(e.r, all(0.5f), all(1.00001466f)), e.r, all(1.0f));
  return mul_add(_mm512_scalef_ps(e.power, e.n), p, all(1.0f));
}

inline __mmask16 first(int64_t n) { return static_cast<__mmask16>((1u << n) - 1u); }

inline Vec float_of_half(__m256i bits) { return _mm512_cvtph_ps(bits); }

// One word permutation each way: cheaper than widening or narrowing and a shift.
inline Vec float_of_bfloat16(__m256i bits) {
  const __m512i upper = _mm512_set_epi16(15, 0, 14, 0, 13, 0, 12, 0, 11, 0, 10, 0, 9, 0, 8, 0, 7, 0, 6, 0, 5, 0, 4, 0,
                                         3, 0, 2, 0, 1, 0, 0, 0);
  return _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xaaaaaaaau, upper, _mm512_castsi256_si512(bits)));
}

inline __m256i half_bits(Vec v) { return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }

// Not vcvtneps2bf16: that one takes subnormal inputs for zero.
inline __m256i bfloat16_bits(Vec v) {
  const __m512i bits = _mm512_castps_si512(v);
  const __mmask16 odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
  const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  const __m512i down = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
  const __m512i even = _mm512_mask_add_epi32(down, odd, bits, _mm512_set1_epi32(0x8000));
  const __m512i wide = _mm512_mask_or_epi32(even, nan, bits, _mm512_set1_epi32(0x400000));
  const __m512i upper =
      _mm512_castsi256_si512(_mm256_set_epi16(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1));
  return _mm512_castsi512_si256(_mm512_permutexvar_epi16(upper, wide));
}

inline Vec load(const float* p) { return _mm512_loadu_ps(p); }
inline Vec load(const Half* p) { return float_of_half(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
inline Vec load(const BFloat16* p) {
  return float_of_bfloat16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}

inline void store(float* p, Vec v) { _mm512_storeu_ps(p, v); }
inline void store(Half* p, Vec v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), half_bits(v)); }
inline void store(BFloat16* p, Vec v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), bfloat16_bits(v)); }

// The even elements in one vector and the odd ones in the other: a shift or a mask each, where neighbours would have to
// be permuted.
inline Two load_two(const BFloat16* p) {
  const __m512i bits = _mm512_loadu_si512(p);
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(bits, 16)), _mm512_castsi512_ps(_mm512_and_si512(bits, upper))};
}

// float32 in that order.
inline Two load_two_as(const BFloat16*, const float* p) {
  const __m512 first = _mm512_loadu_ps(p), second = _mm512_loadu_ps(p + kLanes);
  const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  const __m512i odd = _mm512_set_epi32(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
  return {_mm512_permutex2var_ps(first, even, second), _mm512_permutex2var_ps(first, odd, second)};
}

// Back from it.
inline void store_two_as(const BFloat16*, float* p, Two v) {
  const __m512i lower = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __m512i upper = _mm512_set_epi32(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8);
  _mm512_storeu_ps(p, _mm512_permutex2var_ps(v.a, lower, v.b));
  _mm512_storeu_ps(p + kLanes, _mm512_permutex2var_ps(v.a, upper, v.b));
}

// NaN with no bits past those of a bfloat16, which rounding would carry into its sign.
inline Vec short_nan(Vec v) {
  const __m512i bits = _mm512_castps_si512(v);
  const __m512i upper = _mm512_and_si512(bits, _mm512_set1_epi32(static_cast<int>(0xffff0000u)));
  const __m512i quiet = _mm512_or_si512(upper, _mm512_set1_epi32(0x400000));
  return _mm512_castsi512_ps(_mm512_mask_mov_epi32(bits, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), quiet));
}

// To nearest even, both at once: upper halves in one vector, lower ones in the other. What carries into an upper half
// is bit 16 of lower + 0x7fff + (upper & 1), of which avg gives bits 1 to 16. A NaN without bits below stays as it is.
// As assembly since clang knows what these shuffles do, and takes permutations of three steps instead.
inline __m512i bits_of_two(Two v) {
  const __m512i to_lower = _mm512_set4_epi32(0x0f0e0f0e, 0x0b0a0b0a, 0x07060706, 0x03020302);
  const __m512i to_upper = _mm512_set4_epi32(0x0d0c0d0c, 0x09080908, 0x05040504, 0x01000100);
  const __mmask64 low = 0x3333333333333333u, high = 0xccccccccccccccccu;
  const __m512i a = _mm512_castps_si512(v.a), b = _mm512_castps_si512(v.b);
  __m512i upper = b, lower = a;
  __asm__("vpshufb %1, %2, %0%{%3%}" : "+v"(upper) : "v"(to_lower), "v"(a), "Yk"(low));
  __asm__("vpshufb %1, %2, %0%{%3%}" : "+v"(lower) : "v"(to_upper), "v"(b), "Yk"(high));
  const __m512i add = _mm512_ternarylogic_epi32(upper, _mm512_set1_epi16(1), _mm512_set1_epi16(0x7ffe), 0xea);
  return _mm512_add_epi16(upper, _mm512_srli_epi16(_mm512_avg_epu16(lower, add), 15));
}

inline void store_two_short_nan(BFloat16* p, Two v) { _mm512_storeu_si512(p, bits_of_two(v)); }

// Whether the sizes of 32 numbers of 16 bits are at most this.
inline bool within_size(const void* p, int16_t most) {
  const __m512i sizes = _mm512_and_si512(_mm512_loadu_si512(p), _mm512_set1_epi16(0x7fff));
  return _mm512_cmpgt_epu16_mask(sizes, _mm512_set1_epi16(most)) == 0;
}
inline bool near_zero(const BFloat16* p) { return within_size(p, 0x4208); }  // 34
inline bool near_zero(const Half* p) { return within_size(p, 0x5040); }

inline Two with_short_nan(Two v) {
  if (__builtin_expect(_mm512_cmp_ps_mask(v.a, v.b, _CMP_UNORD_Q) != 0, 0)) v = {short_nan(v.a), short_nan(v.b)};
  return v;
}

inline void store_two(BFloat16* p, Two v) { store_two_short_nan(p, with_short_nan(v)); }

#define KW_SIMD_STREAM
constexpr bool kStreams = true;
inline void stream_two(float* p, Two v) {
  _mm512_stream_ps(p, v.a);
  _mm512_stream_ps(p + kLanes, v.b);
}
inline void stream_two(Half* p, Two v) {
  const __m512i first = _mm512_castsi256_si512(half_bits(v.a));
  _mm512_stream_si512(reinterpret_cast<__m512i*>(p), _mm512_inserti64x4(first, half_bits(v.b), 1));
}
inline void stream_two(BFloat16* p, Two v) {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(p), bits_of_two(with_short_nan(v)));
}
inline void stream_end() { _mm_sfence(); }

inline Vec load_part(const float* p, int64_t n) { return _mm512_maskz_loadu_ps(first(n), p); }
inline Vec load_part(const Half* p, int64_t n) { return float_of_half(_mm256_maskz_loadu_epi16(first(n), p)); }
inline Vec load_part(const BFloat16* p, int64_t n) { return float_of_bfloat16(_mm256_maskz_loadu_epi16(first(n), p)); }

inline void store_part(float* p, Vec v, int64_t n) { _mm512_mask_storeu_ps(p, first(n), v); }
inline void store_part(Half* p, Vec v, int64_t n) { _mm256_mask_storeu_epi16(p, first(n), half_bits(v)); }
inline void store_part(BFloat16* p, Vec v, int64_t n) { _mm256_mask_storeu_epi16(p, first(n), bfloat16_bits(v)); }

}  // namespace kw::cpu::avx512
