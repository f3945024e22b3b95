// SPDX-License-Identifier: MIT
// Values into codes: a scale for each block, and of each value the place among the bounds between codes. A unit is 16
// bytes of x, a row the units side by side of a warp's lanes, a part what a warp takes at a time: four rows, or one
// block where that is longer. A block is a few lanes' units, or several rows.
#pragma once

#include "device/ptx/memory.cuh"
#include "device/ptx/sync.cuh"
#include "ops/four_bit/device/quantize_buckets.cuh"
#include "ops/four_bit/geometry.h"

namespace kw {

template <class T>
struct Quantize4bit {
  static constexpr u32 kCount = 16 / T::kSize, kBytes = kCount / 2;  // of a unit: values, bytes of codes
  static constexpr u32 kRow = kCount * kWarp;
  const KwQuantize4bitParams& p;
  const Buckets4bit buckets;
  const u32 lane;
  const u32 lanes, rows;  // that share a block
  Unit<T, 16> unit[kQuantizeRows], next[kQuantizeRows];

  __device__ __forceinline__ explicit Quantize4bit(const KwQuantize4bitParams& p)
      : p(p),
        buckets(p),
        lane(threadIdx.x % kWarp),
        lanes(1u << p.block_log2 < kRow ? (1u << p.block_log2) / kCount : kWarp),
        rows(1u << p.block_log2 < kRow ? 1 : (1u << p.block_log2) / kRow) {}

  __device__ __forceinline__ u32 part() const { return (rows > kQuantizeRows ? rows : kQuantizeRows) * kRow; }

  // The largest of a row into that of its block, as far as lanes share it.
  __device__ __forceinline__ u32 among_lanes(u32 most) const {
    for (u32 mask = 1; mask < lanes; mask *= 2) {
      most = larger(most, bits_of_float(shuffle_xor(float_of_bits(most), mask)));
    }
    return most;
  }

  // --- four whole rows at once, while the next are on their way

  __device__ __forceinline__ void load_rows(i64 first) {
    const char* from = p.x + (first + lane * kCount) * T::kSize;
#pragma unroll
    for (u32 i = 0; i < kQuantizeRows; ++i) kw::load<16>(from + i * (16 * kWarp), next[i].word);
  }

  __device__ __forceinline__ void largest_of_rows(u32 (&most)[kQuantizeRows]) const {
#pragma unroll
    for (u32 i = 0; i < kQuantizeRows; ++i) most[i] = largest_of<T>(unit[i]);
#pragma unroll
    for (u32 i = 0; i < kQuantizeRows; ++i) most[i] = among_lanes(most[i]);
    for (u32 apart = 1; apart < rows; apart *= 2) {
      u32 before[kQuantizeRows];
#pragma unroll
      for (u32 i = 0; i < kQuantizeRows; ++i) before[i] = most[i];
#pragma unroll
      for (u32 i = 0; i < kQuantizeRows; ++i) most[i] = larger(before[i], apart == 1 ? before[i ^ 1] : before[i ^ 2]);
    }
  }

  template <bool kPlaces>
  __device__ __forceinline__ void store_rows(i64 first, const float (&by)[kQuantizeRows]) const {
    char* to = p.packed + (first + lane * kCount) / 2;
#pragma unroll
    for (u32 i = 0; i < kQuantizeRows; ++i) {
      const u32 codes[1] = {codes_of<T, kPlaces>(unit[i], buckets, by[i])};
      kw::store<kBytes>(to + i * (kBytes * kWarp), codes);
    }
  }

  __device__ __forceinline__ void work_on_rows(i64 first) const {
    u32 most[kQuantizeRows];
    float by[kQuantizeRows];
    largest_of_rows(most);
    char* scales = p.absmax + ((first + lane * kCount) >> p.block_log2) * 4;
#pragma unroll
    for (u32 i = 0; i < kQuantizeRows; ++i) {
      const u32 scale[1] = {flushed(most[i])};
      by[i] = reciprocal_of_normal(float_of_bits(scale[0]));
      if ((lane & (lanes - 1)) == 0 && (i & (rows - 1)) == 0) store<4>(scales + (i * kRow >> p.block_log2) * 4, scale);
    }
    if (buckets.order == 0) {
      store_rows<true>(first, by);
    } else {
      store_rows<false>(first, by);
    }
  }

  // --- whatever it is, unit by unit

  // What lies past the end is 0.
  __device__ __forceinline__ void load_unit(i64 at, Unit<T, 16>& to) const {
    to.clear();
    if (p.aligned && p.count - at >= kCount) return kw::load<16>(p.x + at * T::kSize, to.word);
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) {
      if (i >= p.count - at) break;
      u32 one[1];
      kw::load<T::kSize>(p.x + (at + i) * T::kSize, one);
      to.word[T::kSize == 4 ? i % 4 : i / 2 % 4] |= one[0] << (T::kSize == 4 ? 0 : i % 2 * 16);
    }
  }

  __device__ __forceinline__ void store_unit(i64 at, const Unit<T, 16>& of, float by) const {
    const u32 codes[1] = {buckets.order == 0 ? codes_of<T, true>(of, buckets, by)
                                             : codes_of<T, false>(of, buckets, by)};
    if (p.aligned && p.count - at >= kCount) return kw::store<kBytes>(p.packed + at / 2, codes);
#pragma unroll
    for (u32 i = 0; i < kBytes; ++i) {
      if (static_cast<i64>(i * 2) >= p.count - at) break;
      const u32 byte[1] = {codes[0] >> (i * 8)};
      kw::store<1>(p.packed + at / 2 + i, byte);
    }
  }

  __device__ __forceinline__ void work_by_units(i64 first) const {
    i64 at = first + lane * kCount;
#pragma unroll 1
    for (u32 of_part = 0; of_part < part(); of_part += rows * kRow, at += rows * kRow) {
      Unit<T, 16> one;
      u32 most = 0;
#pragma unroll 1
      for (u32 i = 0; i < rows; ++i) {
        load_unit(at + i * kRow, one);
        most = larger(most, largest_of<T>(one));
      }
      const u32 scale[1] = {flushed(among_lanes(most))};
      if ((lane & (lanes - 1)) == 0 && at < p.count) store<4>(p.absmax + (at >> p.block_log2) * 4, scale);
#pragma unroll 1
      for (u32 i = 0; i < rows; ++i) {
        if (rows > 1) load_unit(at + i * kRow, one);
        store_unit(at + i * kRow, one, reciprocal_of_normal(float_of_bits(scale[0])));
      }
    }
  }

  // Warps past the end go along with the others of their block: so the compiler sees that all lanes do the same.
  __device__ __forceinline__ void run() {
    const i64 of_block = static_cast<i64>(part()) * (kQuantizeThreads / kWarp), apart = gridDim.x * of_block;
    const u32 of_warp = threadIdx.x / kWarp * part();
    const bool fast = p.aligned && rows <= kQuantizeRows;
    i64 at = blockIdx.x * of_block;
    if (fast && at + of_block <= p.count) load_rows(at + of_warp);
#pragma unroll 1
    for (; fast && at + of_block <= p.count; at += apart) {
#pragma unroll
      for (u32 i = 0; i < kQuantizeRows; ++i) unit[i] = next[i];
      if (at + apart + of_block <= p.count) load_rows(at + apart + of_warp);
      work_on_rows(at + of_warp);
    }
#pragma unroll 1
    for (; at < p.count; at += apart) work_by_units(at + of_warp);
  }
};

template <class T>
__device__ __forceinline__ void quantize_4bit(const KwQuantize4bitParams& p) {
  Quantize4bit<T> quantize(p);
  allow_next_kernel();
  wait_for_previous_kernel();
  quantize.run();
}

}  // namespace kw
