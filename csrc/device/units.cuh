// SPDX-License-Identifier: MIT
// Units at the ends of arrays and where nothing is aligned, and the largest size of elements.
#pragma once

#include "device/element.cuh"
#include "device/ptx/memory.cuh"
#include "device/reduce.cuh"

namespace kw {

// The larger of the sizes that bits stand for: as integers they compare as sizes do, and a NaN is larger than all.
__device__ __forceinline__ u32 larger_size(u32 most, u32 bits) {
  bits &= 0x7fffffffu;
  return bits > most ? bits : most;
}

__device__ __forceinline__ u32 shuffle_xor_bits(u32 bits, u32 mask) {
  return bits_of_float(shuffle_xor(float_of_bits(bits), mask));
}

// The largest size among `lanes` lanes side by side, a power of two; each of them gets it.
__device__ __forceinline__ u32 largest_of_lanes(u32 most, u32 lanes) {
  for (u32 mask = lanes / 2; mask > 0; mask /= 2) most = larger_size(most, shuffle_xor_bits(most, mask));
  return most;
}

// The bits, as a float's, of the largest size among a unit's elements.
template <class T>
__device__ __forceinline__ u32 largest_of_unit(const Unit<T, 16>& of) {
  u32 bits = 0;
  if constexpr (T::kSize == 4) {
#pragma unroll
    for (u32 i = 0; i < 4; ++i) bits = larger_size(bits, of.word[i]);
    return bits;
  } else {
#pragma unroll
    for (u32 i = 0; i < 4; ++i) bits = larger_halves(bits, of.word[i] & 0x7fff7fffu);
    const u32 low = bits << 16;
    return bits_of_float(T::high(bits > low ? bits : low));
  }
}

// A unit of T at element `at` of `count`; what lies past the end is 0. The element-wise way is a loop, since its code
// is seldom run and stands in many places.
template <class T, int kBytes>
__device__ __forceinline__ void load_unit(const char* from, i64 at, i64 count, bool aligned, Unit<T, kBytes>& to) {
  constexpr int kCount = kBytes / T::kSize;
  if (aligned && count - at >= kCount) return load<kBytes>(from + at * T::kSize, to.word);
  to.clear();
#pragma unroll 1
  for (int i = 0; i < kCount && i < count - at; ++i) {
    u32 one[1];
    load<T::kSize>(from + (at + i) * T::kSize, one);
#pragma unroll
    for (int word = 0; word < kBytes / 4; ++word) {
      to.word[word] |= i * T::kSize / 4 == word ? one[0] << (i * T::kSize % 4 * 8) : 0;
    }
  }
}

template <class T, int kBytes>
__device__ __forceinline__ void store_unit(char* to, i64 at, i64 count, bool aligned, const Unit<T, kBytes>& of) {
  constexpr int kCount = kBytes / T::kSize;
  if (aligned && count - at >= kCount) return store<kBytes>(to + at * T::kSize, of.word);
#pragma unroll 1
  for (int i = 0; i < kCount && i < count - at; ++i) {
    u32 one[1] = {0};
#pragma unroll
    for (int word = 0; word < kBytes / 4; ++word) {
      if (i * T::kSize / 4 == word) one[0] = of.word[word] >> (i * T::kSize % 4 * 8);
    }
    store<T::kSize>(to + (at + i) * T::kSize, one);
  }
}

}  // namespace kw
