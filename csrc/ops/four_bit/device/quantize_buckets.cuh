// SPDX-License-Identifier: MIT
// One value into its code, and bits of absolute values compared.
#pragma once

#include "device/element.cuh"
#include "device/reduce.cuh"
#include "ops/four_bit/params.h"

namespace kw {

// The larger of the absolute values: integers compare as those do, and a NaN is larger than all.
__device__ __forceinline__ u32 larger(u32 most, u32 bits) {
  bits &= 0x7fffffffu;
  return bits > most ? bits : most;
}

__device__ __forceinline__ u32 shuffle_bits(u32 bits, u32 lane) {
  return bits_of_float(shuffle_from(float_of_bits(bits), lane));
}

// What a value is scaled by, from the bits of the largest. Of a subnormal one as of 0: bitsandbytes flushes those.
__device__ __forceinline__ u32 flushed(u32 most) { return most < 0x00800000u ? 0 : most; }

// The lane's part of the table of buckets (params.h).
struct Buckets4bit {
  float bound;
  u32 below, kept, order;

  __device__ __forceinline__ explicit Buckets4bit(const KwQuantize4bitParams& p)
      : bound(p.bound[threadIdx.x % 32]), below(p.below[threadIdx.x % 32]), kept(p.kept), order(p.order) {}

  // Adds a value's code to `codes`; all lanes of a warp call it. The sum's lowest bits are the bucket, since from 2^23
  // on floats are integers; that of a NaN is 31, the smallest values'. Whether places are codes is asked once for many
  // values: with a branch in each they would be worked out one after the other.
  template <bool kPlaces>
  __device__ __forceinline__ void add_code(float scaled, u32 shift, u32& codes) const {
    const float value = kPlaces ? scaled : float_of_bits(bits_of_float(scaled) & kept);
    const u32 bucket = bits_of_float(fmaf(value, -15.25f, 8388624.0f));
    const float limit = shuffle_from(bound, bucket);
    u32 place = shuffle_bits(below, bucket);
    if constexpr (kPlaces) {
      codes += place << shift;
      if (value > limit) codes += 1u << shift;
    } else {
      if (value > limit) ++place;
      codes += (order >> (place * 4) & 7u) << shift;
      if (scaled < 0.0f) codes += 8u << shift;
    }
  }
};

// The codes of a unit's values, as they lie in memory. All lanes of a warp call it.
template <class T, bool kPlaces>
__device__ __forceinline__ u32 codes_of(const Unit<T, 16>& unit, const Buckets4bit& buckets, float by) {
  constexpr u32 kCount = Unit<T, 16>::kCount;
  float value[kCount];
  unit.unpack(value);
  u32 codes = 0;
#pragma unroll
  for (u32 i = 0; i < kCount; ++i) {
    buckets.add_code<kPlaces>(multiply_flushed(value[i], by), i / 2 * 8 + (i % 2 == 0 ? 4 : 0), codes);
  }
  return codes;
}

// The bits of the largest absolute value, as a float's.
template <class T>
__device__ __forceinline__ u32 largest_of(const Unit<T, 16>& unit) {
  u32 bits = 0;
  if constexpr (T::kSize == 4) {
#pragma unroll
    for (u32 i = 0; i < 4; ++i) bits = larger(bits, unit.word[i]);
    return bits;
  } else {
#pragma unroll
    for (u32 i = 0; i < 4; ++i) bits = larger_halves(bits, unit.word[i] & 0x7fff7fffu);
    return bits_of_float(T::high(larger(bits, bits << 16)));
  }
}

}  // namespace kw
