// SPDX-License-Identifier: MIT
// Vectors of float32 for the instruction set KW_ISA, and the way between them and memory of any element type.
//
// simd/<isa>.h brings, all in namespace kw::cpu::KW_ISA:
//   Vec, kLanes                      a vector of kLanes floats
//   zero(), all(f)                   every lane 0, or f
//   add(a, b), mul(a, b)             lane by lane
//   mul_add(a, b, c)                 a * b + c, fused where the set can
//   total(v)                         sum of the lanes
//   root(d), root(v)                 square root, of a double or of each lane, rounded once, without libm
//   within(v, low, high)             the nearest lane from low to high; NaN stays
//   minus_size(v)                    -|v|
//   where_negative(v, a, b)          the lane of a where that of v has its sign bit set, else that of b
//   reciprocal(v)                    1 / v to 2 units in the last place, of lanes from 2^-100 to 2^100
//   nearest(v)                       the nearest whole number, of lanes up to 2^20
//   times_power(v, n)                v * 2^n, rounded once, for whole n from -250 to 250
//   load(p), store(p, v)             kLanes elements at any element-aligned address, rounded to nearest even
//
// and, where its own way is faster, what this file has for all:
//   load_part, store_part            fewer than kLanes elements
//   load_two, store_two              2 * kLanes elements, for what is done to each alone
//   load_two_as, store_two_as        float32 in the order in which load_two has elements of another type
//   exp_short(v)                     exp for results of 16 bits
//   exp_minus(v)                     exp_short(-v), the same bits, for v from -87 to 105; with it go
//   exp_minus_and_one(v)             1 + exp(-v) to 2^-20
//   where_below(v, bound, a, b)      the lane of a where that of v is less than the bound, else that of b
//   near_zero(p)                     whether 2 * kLanes elements are known to be numbers from -34 to 34
//   store_two_short_nan(p, v)        store_two of vectors whose NaNs the element type holds as they are
//   stream_two(p, v)                 store_two, non-temporal, where p begins a line of them; others see it after
//   stream_end()                     which is called once at the end. kStreams says whether there is such a thing
//
// and fetch<n>(p), which asks for what is read later: CPUs look ahead by themselves, but not into another page, and a
// row of usual length is two of them.
#pragma once

#include <stdint.h>
#include <string.h>

#include "cpu/isa.h"

namespace kw::cpu {

struct Half {
  uint16_t bits;
};

struct BFloat16 {
  uint16_t bits;
};

}  // namespace kw::cpu

#define KW_SIMD_FILE_scalar "cpu/simd/scalar.h"
#define KW_SIMD_FILE_avx2 "cpu/simd/avx2.h"
#define KW_SIMD_FILE_avx512 "cpu/simd/avx512.h"
#define KW_SIMD_FILE_neon "cpu/simd/neon.h"
#include KW_CPU_JOIN(KW_SIMD_FILE_, KW_ISA)

namespace kw::cpu::KW_ISA {

// exp(v) below, for v from -105 to 89 or NaN.
inline Vec exp_inside(Vec v) {
  const Vec n = nearest(mul(v, all(1.44269504f)));
  // ln 2 in two parts: the first has so few bits that n times it is exact.
  const Vec r = mul_add(n, all(2.12194440e-4f), mul_add(n, all(-0.693359375f), v));
  Vec p = all(1.3814467e-3f);  // (exp(r) - 1 - r) / r^2 to 2^-28 of exp(r), for r within ln 2 / 2
  p = mul_add(p, r, all(8.3687808e-3f));
  p = mul_add(p, r, all(4.16683927e-2f));
  p = mul_add(p, r, all(0.166665196f));
  p = mul_add(p, r, all(0.49999994f));
  return times_power(add(mul_add(mul(r, r), p, r), all(1.0f)), n);
}

// e to the power of v, to 2 units in the last place, subnormal results too; 0 and infinity where it must be. That is
// 2^n * exp(r): n is v / ln 2, rounded, and r what is left of v, to more bits than v has.
inline Vec exp(Vec v) {
  return exp_inside(within(v, -105.0f, 89.0f));  // outside, the result is that of the bound; inside, n is an exponent
}

#ifndef KW_SIMD_EXP_SHORT
// exp(v) to 2^-20, and to a unit in the last place where that is more, for v from -105 to 89 or NaN.
inline Vec exp_short(Vec v) { return exp_inside(v); }
#endif

// The next kCount elements from p on, which need not exist, into the first cache or the second.
template <int64_t kCount, int kCache = 1, class T>
inline void fetch(const T* p) {
  constexpr uintptr_t kLine = 64, kBytes = kCount * sizeof(T);
  const auto at = reinterpret_cast<uintptr_t>(p);
  for (uintptr_t i = 0; i < kBytes; i += kLine)
    __builtin_prefetch(reinterpret_cast<const void*>(at + i), 0, 4 - kCache);
}

// 2 * kLanes elements, each in any lane of the two.
template <class T>
inline Two load_two(const T* p) {
  return {load(p), load(p + kLanes)};
}

// Of type W, in the order of load_two(const T*).
template <class T, class W>
inline Two load_two_as(const T*, const W* p) {
  return load_two(p);
}

template <class T>
inline void store_two(T* p, Two v) {
  store(p, v.a);
  store(p + kLanes, v.b);
}

// What is in the order of load_two(const T*), as elements of type W.
template <class T, class W>
inline void store_two_as(const T*, W* p, Two v) {
  store_two(p, v);
}

template <class T>
inline void store_two_short_nan(T* p, Two v) {
  store_two(p, v);
}

#ifndef KW_SIMD_STREAM
constexpr bool kStreams = false;
template <class T>
inline void stream_two(T* p, Two v) {
  store_two(p, v);
}
inline void stream_end() {}
#endif

template <class T>
inline bool near_zero(const T*) {
  return false;
}

// The first n < kLanes elements; the other lanes are 0. A set with masked access has overloads that are chosen before
// these.
template <class T>
inline Vec load_part(const T* p, int64_t n) {
  T all[kLanes] = {};
  memcpy(all, p, static_cast<size_t>(n) * sizeof(T));
  return load(all);
}

template <class T>
inline void store_part(T* p, Vec v, int64_t n) {
  T all[kLanes];
  store(all, v);
  memcpy(p, all, static_cast<size_t>(n) * sizeof(T));
}

}  // namespace kw::cpu::KW_ISA
