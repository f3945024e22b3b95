// SPDX-License-Identifier: MIT
// Advanced SIMD of aarch64: 8 lanes in two registers, since 8 elements of 16 bits fill one. Included by simd.h alone.
#pragma once

#include <arm_neon.h>

namespace kw::cpu::neon {

constexpr int kLanes = 8;

struct Vec {
  float32x4_t a, b;
};

struct Two {
  Vec a, b;
};

inline Vec all(float value) { return {vdupq_n_f32(value), vdupq_n_f32(value)}; }
inline Vec zero() { return all(0.0f); }
inline Vec add(Vec u, Vec v) { return {vaddq_f32(u.a, v.a), vaddq_f32(u.b, v.b)}; }
inline Vec mul(Vec u, Vec v) { return {vmulq_f32(u.a, v.a), vmulq_f32(u.b, v.b)}; }
inline Vec mul_add(Vec u, Vec v, Vec w) { return {vfmaq_f32(w.a, u.a, v.a), vfmaq_f32(w.b, u.b, v.b)}; }
inline float total(Vec v) { return vaddvq_f32(vaddq_f32(v.a, v.b)); }
inline double root(double value) { return vget_lane_f64(vsqrt_f64(vdup_n_f64(value)), 0); }
inline Vec root(Vec v) { return {vsqrtq_f32(v.a), vsqrtq_f32(v.b)}; }

// vmax and vmin give NaN where there is one.
inline Vec within(Vec v, float low, float high) {
  const float32x4_t l = vdupq_n_f32(low), h = vdupq_n_f32(high);
  return {vminq_f32(vmaxq_f32(v.a, l), h), vminq_f32(vmaxq_f32(v.b, l), h)};
}

inline Vec minus_size(Vec v) { return {vnegq_f32(vabsq_f32(v.a)), vnegq_f32(vabsq_f32(v.b))}; }

inline uint32x4_t negative(float32x4_t v) { return vcltzq_s32(vreinterpretq_s32_f32(v)); }
inline Vec where_negative(Vec v, Vec a, Vec b) {
  return {vbslq_f32(negative(v.a), a.a, b.a), vbslq_f32(negative(v.b), a.b, b.b)};
}

inline Vec reciprocal(Vec v) { return {vdivq_f32(vdupq_n_f32(1.0f), v.a), vdivq_f32(vdupq_n_f32(1.0f), v.b)}; }
inline Vec nearest(Vec v) { return {vrndnq_f32(v.a), vrndnq_f32(v.b)}; }

inline float32x4_t power_of_two(int32x4_t n) {
  return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23));
}

// In two steps, each within the exponents of a float; only the second can round.
inline float32x4_t times_power(float32x4_t v, float32x4_t n) {
  const int32x4_t whole = vcvtq_s32_f32(n), half = vshrq_n_s32(whole, 1);
  return vmulq_f32(vmulq_f32(v, power_of_two(half)), power_of_two(vsubq_s32(whole, half)));
}
inline Vec times_power(Vec v, Vec n) { return {times_power(v.a, n.a), times_power(v.b, n.b)}; }

inline Vec load(const float* p) { return {vld1q_f32(p), vld1q_f32(p + 4)}; }

inline Vec load(const Half* p) {
  const float16x8_t half = vreinterpretq_f16_u16(vld1q_u16(&p->bits));
  return {vcvt_f32_f16(vget_low_f16(half)), vcvt_high_f32_f16(half)};
}

inline Vec load(const BFloat16* p) {
  const uint16x8_t bits = vld1q_u16(&p->bits);
  return {vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(vget_low_u16(bits)), 16)),
          vreinterpretq_f32_u32(vshlq_n_u32(vmovl_high_u16(bits), 16))};
}

inline uint32x4_t bfloat16_wide(float32x4_t v) {
  const uint32x4_t bits = vreinterpretq_u32_f32(v);
  const uint32x4_t upper = vshrq_n_u32(bits, 16);
  const uint32x4_t odd = vandq_u32(upper, vdupq_n_u32(1));
  const uint32x4_t rounded = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
  const uint32x4_t quiet = vorrq_u32(upper, vdupq_n_u32(0x40));
  return vbslq_u32(vceqq_f32(v, v), vshrq_n_u32(rounded, 16), quiet);
}

inline void store(float* p, Vec v) {
  vst1q_f32(p, v.a);
  vst1q_f32(p + 4, v.b);
}

inline void store(Half* p, Vec v) {
  vst1q_u16(&p->bits, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(v.a), v.b)));
}

inline void store(BFloat16* p, Vec v) {
  vst1q_u16(&p->bits, vcombine_u16(vmovn_u32(bfloat16_wide(v.a)), vmovn_u32(bfloat16_wide(v.b))));
}

}  // namespace kw::cpu::neon
