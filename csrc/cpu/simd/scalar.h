// SPDX-License-Identifier: MIT
// Plain C++ for any CPU. Included by simd.h alone. The lanes are an array, so that a compiler can still use what the
// baseline has.
#pragma once

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace kw::cpu::scalar {

constexpr int kLanes = 8;

struct Vec {
  float lane[kLanes];
};

struct Two {
  Vec a, b;
};

inline uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

inline float decode(float value) { return value; }

inline float decode(BFloat16 value) { return float_of(static_cast<uint32_t>(value.bits) << 16); }

inline float decode(Half value) {
  const uint32_t sign = (value.bits & 0x8000u) << 16;
  const uint32_t exponent = (value.bits >> 10) & 31u;
  const uint32_t mantissa = value.bits & 0x3ffu;
  // A subnormal is mantissa * 2^-24, a normal float32: right even where float32 subnormals are flushed.
  const uint32_t tiny = bits_of(static_cast<float>(static_cast<int32_t>(mantissa)) * 0x1p-24f);
  const uint32_t normal = ((exponent + 112u) << 23) | (mantissa << 13);
  const uint32_t special = 0x7f800000u | (mantissa << 13) | (mantissa != 0 ? 0x400000u : 0u);
  return float_of(sign | (exponent == 0 ? tiny : exponent == 31 ? special : normal));
}

inline void encode(float value, float* out) { *out = value; }

inline void encode(float value, BFloat16* out) {
  const uint32_t bits = bits_of(value);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  const uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  out->bits = static_cast<uint16_t>(nan ? (bits >> 16) | 0x40u : rounded >> 16);
}

inline void encode(float value, Half* out) {
  const uint32_t bits = bits_of(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t size = bits & 0x7fffffffu;
  uint32_t result;
  if (size > 0x7f800000u) {  // NaN stays one, quiet
    result = 0x7e00u | ((size >> 13) & 0x3ffu);
  } else if (size >= 0x477ff000u) {  // 65520 and above round to infinity
    result = 0x7c00u;
  } else if (size >= 0x38800000u) {  // 2^-14: normal
    const uint32_t moved = size - (112u << 23);
    result = (moved + 0xfffu + ((moved >> 13) & 1u)) >> 13;
  } else {  // a multiple of 2^-24; below 2^-25 the shift leaves nothing
    const uint32_t exponent = size >> 23;
    const uint32_t shift = exponent < 102u ? 31u : 126u - exponent;
    const uint32_t mantissa = (size & 0x7fffffu) | 0x800000u;
    result = (mantissa + (1u << (shift - 1u)) - 1u + ((mantissa >> shift) & 1u)) >> shift;
  }
  out->bits = static_cast<uint16_t>(sign | result);
}

inline Vec all(float value) {
  Vec r;
  for (float& lane : r.lane) lane = value;
  return r;
}

inline Vec zero() { return all(0.0f); }

inline Vec add(Vec a, const Vec& b) {
  for (int i = 0; i < kLanes; ++i) a.lane[i] += b.lane[i];
  return a;
}

inline Vec mul(Vec a, const Vec& b) {
  for (int i = 0; i < kLanes; ++i) a.lane[i] *= b.lane[i];
  return a;
}

inline Vec mul_add(const Vec& a, const Vec& b, Vec c) { return add(c, mul(a, b)); }

inline float total(const Vec& v) {
  const float* f = v.lane;
  return ((f[0] + f[4]) + (f[2] + f[6])) + ((f[1] + f[5]) + (f[3] + f[7]));
}

inline double root(double value) {
#ifdef __SSE2__
  return _mm_cvtsd_f64(_mm_sqrt_sd(_mm_setzero_pd(), _mm_set_sd(value)));
#else
  return __builtin_sqrt(value);
#endif
}

inline Vec root(Vec v) {
  for (float& lane : v.lane) {
#ifdef __SSE2__
    lane = _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(lane)));
#else
    lane = __builtin_sqrtf(lane);
#endif
  }
  return v;
}

inline Vec within(Vec v, float low, float high) {
  for (float& lane : v.lane) lane = lane < low ? low : lane > high ? high : lane;
  return v;
}

inline Vec minus_size(Vec v) {
  for (float& lane : v.lane) lane = float_of(bits_of(lane) | 0x80000000u);
  return v;
}

inline Vec where_negative(const Vec& v, Vec a, const Vec& b) {
  for (int i = 0; i < kLanes; ++i) a.lane[i] = bits_of(v.lane[i]) >> 31 ? a.lane[i] : b.lane[i];
  return a;
}

inline Vec reciprocal(Vec v) {
  for (float& lane : v.lane) lane = 1.0f / lane;
  return v;
}

// Among the numbers from 2^23 to 2^24 the neighbours are 1 apart: what is added to this one is rounded, and stands in
// its lowest bits.
constexpr float kWhole = 0x1.8p23f;

inline Vec nearest(Vec v) {
  for (float& lane : v.lane) lane = (lane + kWhole) - kWhole;
  return v;
}

inline float power_of_two(int32_t n) { return float_of(static_cast<uint32_t>(n + 127) << 23); }

// In two steps, each within the exponents of a float; only the second can round.
inline Vec times_power(Vec v, const Vec& n) {
  for (int i = 0; i < kLanes; ++i) {
    const auto whole = static_cast<int32_t>(bits_of(n.lane[i] + kWhole) - bits_of(kWhole));
    v.lane[i] = v.lane[i] * power_of_two(whole >> 1) * power_of_two(whole - (whole >> 1));
  }
  return v;
}

template <class T>
inline Vec load(const T* p) {
  Vec r;
  for (int i = 0; i < kLanes; ++i) r.lane[i] = decode(p[i]);
  return r;
}

// Not inlined: eight times the branches of a float16, at every use, made this copy of an op three times the size of the
// others.
[[gnu::noinline]] inline Vec load(const Half* p) { return load<Half>(p); }

template <class T>
inline void store(T* p, const Vec& v) {
  for (int i = 0; i < kLanes; ++i) encode(v.lane[i], p + i);
}

[[gnu::noinline]] inline void store(Half* p, const Vec& v) { store<Half>(p, v); }

}  // namespace kw::cpu::scalar
