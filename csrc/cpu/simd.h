// SPDX-License-Identifier: MIT
// Vectors of float32 for the instruction set KW_ISA, and the way between them and memory of any element type.
//
// simd/<isa>.h brings, all in namespace kw::cpu::KW_ISA:
//   Vec, kLanes                      a vector of kLanes floats
//   zero(), all(f)                   every lane 0, or f
//   add(a, b), mul(a, b)             lane by lane
//   mul_add(a, b, c)                 a * b + c, fused where the set can
//   total(v)                         sum of the lanes
//   root(d)                          square root, without libm
//   load(p), store(p, v)             kLanes elements at any element-aligned address, rounded to nearest even
#pragma once

#include <stdint.h>
#include <string.h>

#include "isa.h"

namespace kw::cpu {

struct Half {
  uint16_t bits;
};

struct BFloat16 {
  uint16_t bits;
};

}  // namespace kw::cpu

#define KW_SIMD_FILE_scalar "simd/scalar.h"
#define KW_SIMD_FILE_avx2 "simd/avx2.h"
#define KW_SIMD_FILE_avx512 "simd/avx512.h"
#define KW_SIMD_FILE_neon "simd/neon.h"
#include KW_CPU_JOIN(KW_SIMD_FILE_, KW_ISA)

namespace kw::cpu::KW_ISA {

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
