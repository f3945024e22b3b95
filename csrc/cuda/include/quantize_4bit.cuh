// SPDX-License-Identifier: MIT
// Values into codes: a scale for each block, and of each value the place among the bounds between codes. A unit is 16
// bytes of x. A block is a few lanes' units, or several of each lane.
#pragma once

#include "element.cuh"
#include "four_bit_params.h"
#include "ptx_memory.cuh"
#include "ptx_sync.cuh"
#include "reduce.cuh"

namespace kw {

constexpr u32 kQuantizeThreads = 128;
constexpr u32 kQuantizeSlots = 4;  // units a lane; those of a warp are a span

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

// The lane's part of the table of buckets (four_bit_params.h).
struct Buckets4bit {
  float bound;
  u32 below, kept, order;

  __device__ __forceinline__ explicit Buckets4bit(const KwQuantize4bitParams& p)
      : bound(p.bound[threadIdx.x % 32]), below(p.below[threadIdx.x % 32]), kept(p.kept), order(p.order) {}

  // All lanes of a warp call it. The sum's lowest bits are the bucket, since from 2^23 on floats are integers; that of
  // a NaN is 31, the smallest values'.
  __device__ __forceinline__ u32 code(float scaled) const {
    const float value = float_of_bits(bits_of_float(scaled) & kept);
    const u32 bucket = bits_of_float(fmaf(value, -15.25f, 8388624.0f));
    const float limit = shuffle_from(bound, bucket);
    const u32 place = shuffle_bits(below, bucket) + (value > limit ? 1 : 0);
    if (order == 0) return place;
    return (order >> (place * 4) & 7u) + (scaled < 0.0f ? 8 : 0);
  }
};

// A warp's units from element `first` on, 32 apart; what lies past the end is 0.
template <class T>
struct Span4bit {
  static constexpr u32 kCount = 16 / T::kSize, kBytes = kCount / 2;
  static constexpr u32 kElements = kCount * kWarp * kQuantizeSlots;
  Unit<T, 16> unit[kQuantizeSlots];

  static __device__ __forceinline__ i64 element(i64 first, u32 slot) {
    return first + (slot * kWarp + threadIdx.x % kWarp) * kCount;
  }

  __device__ __forceinline__ void load(const KwQuantize4bitParams& p, i64 first) {
#pragma unroll
    for (u32 s = 0; s < kQuantizeSlots; ++s) {
      const i64 at = element(first, s), left = p.count - at;
      unit[s].clear();
      if (left >= kCount && p.aligned) {
        kw::load<16>(p.x + at * T::kSize, unit[s].word);
        continue;
      }
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) {
        if (i >= left) break;
        u32 one[1];
        kw::load<T::kSize>(p.x + (at + i) * T::kSize, one);
        unit[s].word[T::kSize == 4 ? i % 4 : i / 2 % 4] |= one[0] << (T::kSize == 4 ? 0 : i % 2 * 16);
      }
    }
  }

  __device__ __forceinline__ void largest(u32 (&most)[kQuantizeSlots]) const {
#pragma unroll
    for (u32 s = 0; s < kQuantizeSlots; ++s) {
      float value[kCount];
      unit[s].unpack(value);
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) most[s] = larger(most[s], bits_of_float(value[i]));
    }
  }

  __device__ __forceinline__ void store(const KwQuantize4bitParams& p, i64 first, const Buckets4bit& buckets,
                                        const float (&by)[kQuantizeSlots]) const {
#pragma unroll
    for (u32 s = 0; s < kQuantizeSlots; ++s) {
      float value[kCount];
      unit[s].unpack(value);
      u32 codes[1] = {0};
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) {
        codes[0] |= buckets.code(multiply_flushed(value[i], by[s])) << (i / 2 * 8 + (i % 2 == 0 ? 4 : 0));
      }
      store_codes(p, element(first, s), codes);
    }
  }

 private:
  static __device__ __forceinline__ void store_codes(const KwQuantize4bitParams& p, i64 at, const u32 (&codes)[1]) {
    const i64 left = p.count - at;
    char* to = p.packed + at / 2;
    if (left >= kCount && p.aligned) return kw::store<kBytes>(to, codes);
#pragma unroll
    for (u32 i = 0; i < kBytes; ++i) {
      if (i * 2 >= left) break;
      const u32 byte[1] = {codes[0] >> (i * 8)};
      kw::store<1>(to + i, byte);
    }
  }
};

// The largest of each slot into that of its block: over `lanes` lanes, and `slots` slots where all lanes are one's.
__device__ __forceinline__ void largest_of_block(u32 (&most)[kQuantizeSlots], u32 lanes, u32 slots) {
  for (u32 mask = 1; mask < lanes; mask *= 2) {
#pragma unroll
    for (u32 s = 0; s < kQuantizeSlots; ++s) {
      most[s] = larger(most[s], bits_of_float(shuffle_xor(float_of_bits(most[s]), mask)));
    }
  }
  for (u32 apart = 1; apart < slots; apart *= 2) {
    u32 before[kQuantizeSlots];
#pragma unroll
    for (u32 s = 0; s < kQuantizeSlots; ++s) before[s] = most[s];
#pragma unroll
    for (u32 s = 0; s < kQuantizeSlots; ++s) most[s] = larger(before[s], apart == 1 ? before[s ^ 1] : before[s ^ 2]);
  }
}

template <class T>
__device__ __forceinline__ void quantize_4bit(const KwQuantize4bitParams& p) {
  using Span = Span4bit<T>;
  const Buckets4bit buckets(p);
  allow_next_kernel();
  wait_for_previous_kernel();
  const u32 block = 1u << p.block_log2, units = block / Span::kCount;
  const u32 spans = block > Span::kElements ? block / Span::kElements : 1;
  const u32 lanes = units < kWarp ? units : kWarp, slots = units <= kWarp ? 1 : units / kWarp;
  const i64 warp = static_cast<i64>(blockIdx.x) * (kQuantizeThreads / kWarp) + threadIdx.x / kWarp;
  const i64 first = warp * spans * Span::kElements;
  if (first >= p.count) return;

  Span span;
  u32 most[kQuantizeSlots] = {};
  for (u32 i = 0; i < spans; ++i) {
    span.load(p, first + i * Span::kElements);
    span.largest(most);
  }
  largest_of_block(most, lanes, slots < kQuantizeSlots ? slots : kQuantizeSlots);

  float by[kQuantizeSlots];
#pragma unroll
  for (u32 s = 0; s < kQuantizeSlots; ++s) {
    const u32 scale[1] = {flushed(most[s])};
    by[s] = reciprocal_of_normal(float_of_bits(scale[0]));
    const i64 at = Span::element(first, s);
    if (at < p.count && at % block == 0) store<4>(p.absmax + (at >> p.block_log2) * 4, scale);
  }
  for (u32 i = 0; i < spans; ++i) {
    if (spans > 1) span.load(p, first + i * Span::kElements);
    span.store(p, first + i * Span::kElements, buckets, by);
  }
}

}  // namespace kw
