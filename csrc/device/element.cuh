// SPDX-License-Identifier: MIT
// Element types as bits, and units of them: what one load or store instruction moves.
#pragma once

#include "device/ptx/math.cuh"
#include "device/types.cuh"

namespace kw {

struct Float32 {
  static constexpr int kSize = 4;
};

struct Float16 {
  static constexpr bool kIsHalf = true;
  static constexpr int kSize = 2;
  static __device__ __forceinline__ float low(u32 pair) { return float_of_half_low(pair); }
  static __device__ __forceinline__ float high(u32 pair) { return float_of_half_high(pair); }
  static __device__ __forceinline__ u32 pack(float low, float high) { return half_pair(low, high); }
};

struct BFloat16 {
  static constexpr bool kIsHalf = false;
  static constexpr int kSize = 2;
  static __device__ __forceinline__ float low(u32 pair) { return float_of_bits(pair << 16); }
  static __device__ __forceinline__ float high(u32 pair) { return float_of_bits(pair & 0xffff0000u); }
  static __device__ __forceinline__ u32 pack(float low, float high) { return bfloat_pair(low, high); }
};

// kBytes of elements T, as they lie in memory; a lone 16-bit element is the low half of its word.
template <class T, int kBytes>
struct alignas(kBytes < 4 ? 4 : kBytes) Unit {
  static constexpr int kSize = kBytes;
  static constexpr int kCount = kBytes / T::kSize;
  static constexpr int kWords = kBytes < 4 ? 1 : kBytes / 4;
  u32 word[kWords];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < kWords; ++i) word[i] = 0;
  }

  __device__ __forceinline__ void unpack(float* value) const {
    if constexpr (T::kSize == 4) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) value[i] = float_of_bits(word[i]);
    } else if constexpr (kCount == 1) {
      value[0] = T::low(word[0]);
    } else {
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        value[2 * i] = T::low(word[i]);
        value[2 * i + 1] = T::high(word[i]);
      }
    }
  }

  __device__ __forceinline__ void pack(const float* value) {
    if constexpr (T::kSize == 4) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) word[i] = bits_of_float(value[i]);
    } else if constexpr (kCount == 1) {
      word[0] = T::pack(value[0], 0.0f);
    } else {
#pragma unroll
      for (int i = 0; i < kWords; ++i) word[i] = T::pack(value[2 * i], value[2 * i + 1]);
    }
  }
};

}  // namespace kw
