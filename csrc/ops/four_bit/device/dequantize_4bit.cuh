// SPDX-License-Identifier: MIT
// Codes into values. A lane holds one of the 16 values, or the same as the lane 16 before it, so a value is one shuffle
// away: shuffles look at five bits of the lane's number, whose upper bits may be the next code's.
#pragma once

#include "device/element.cuh"
#include "device/ptx/sync.cuh"
#include "device/reduce.cuh"
#include "ops/four_bit/device/scales.cuh"
#include "ops/four_bit/geometry.h"

namespace kw {

// The codes of `left` elements, or of kBytes' where there are more.
template <u32 kBytes>
__device__ __forceinline__ u32 load_codes(const char* from, bool aligned, i64 left) {
  u32 word[1] = {0};
  if (aligned && left >= kBytes * 2) {
    load<kBytes>(from, word);
    return word[0];
  }
#pragma unroll
  for (u32 i = 0; i < kBytes; ++i) {
    if (i * 2 >= left) break;
    u32 byte[1];
    load<1>(from + i, byte);
    word[0] |= byte[0] << (i * 8);
  }
  return word[0];
}

// How far the code of an element is shifted in its word: the first of two is a byte's upper half.
__device__ __forceinline__ constexpr u32 code_shift(u32 element) {
  return element / 2 * 8 + (element % 2 == 0 ? 4 : 0);
}

template <class T>
__device__ __forceinline__ void store_values(char* to, bool aligned, i64 left, const float (&value)[16 / T::kSize]) {
  constexpr u32 kCount = 16 / T::kSize;
  Unit<T, 16> unit;
  unit.pack(value);
  if (aligned && left >= kCount) return store<16>(to, unit.word);
#pragma unroll
  for (u32 i = 0; i < kCount; ++i) {
    if (i >= left) break;
    const u32 element[1] = {T::kSize == 4 ? unit.word[i % 4] : unit.word[i / 2 % 4] >> (i % 2 * 16)};
    store<T::kSize>(to + i * T::kSize, element);
  }
}

// `kSlots` units of a thread, a block's threads apart, from element `first` on. kWhole: aligned, and all in range.
template <class T, u32 kSlots, bool kWhole>
__device__ __forceinline__ void dequantize_units(const KwDequantize4bitParams& p, i64 first, u32 unit, float value) {
  constexpr u32 kCount = 16 / T::kSize, kBytes = kCount / 2;
  const i64 block = first >> p.scales.block_log2;
  const char* packed = p.packed + first / 2 + unit * kBytes;
  char* y = p.y + first * T::kSize + unit * 16;
  const i64 left = kWhole ? kCount : p.count - first - unit * kCount;

  u32 codes[kSlots] = {};
  Scale4bit scale[kSlots];
#pragma unroll
  for (u32 s = 0; s < kSlots; ++s) {
    const u32 after = s * kDequantizeThreads;
    if (!kWhole && left <= 0) continue;
    codes[s] = load_codes<kBytes>(packed + after * kBytes, kWhole || p.aligned, left);
    scale[s].fetch(p.scales, block + ((unit + after) * kCount >> p.scales.block_log2));
  }
#pragma unroll
  for (u32 s = 0; s < kSlots; ++s) {
    const i64 in = block + ((unit + s * kDequantizeThreads) * kCount >> p.scales.block_log2);
    const float by = kWhole || left > 0 ? scale[s].get(p.scales, in) : 0.0f;
    float out[kCount];
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) out[i] = shuffle_from(value, codes[s] >> code_shift(i)) * by;
    store_values<T>(y + s * kDequantizeThreads * 16, kWhole || p.aligned, left, out);
  }
}

template <class T>
__device__ __forceinline__ void dequantize_4bit(const KwDequantize4bitParams& p) {
  constexpr u32 kUnits = kDequantizeThreads * kDequantizeSlots;  // of a block: a multiple of every 4-bit block
  constexpr u32 kCount = 16 / T::kSize;
  const float value = p.values[threadIdx.x % 16];
  allow_next_kernel();
  wait_for_previous_kernel();
  const i64 first = static_cast<i64>(blockIdx.x) * (kUnits * kCount);
  if (p.aligned && p.count - first >= kUnits * kCount) {
    return dequantize_units<T, kDequantizeSlots, true>(p, first, threadIdx.x, value);
  }
#pragma unroll 1
  for (u32 unit = threadIdx.x; unit < kUnits; unit += kDequantizeThreads) {
    dequantize_units<T, 1, false>(p, first, unit, value);
  }
}

}  // namespace kw
