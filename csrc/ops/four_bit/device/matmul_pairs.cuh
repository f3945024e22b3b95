// SPDX-License-Identifier: MIT
// Bytes of two codes as the pairs of their values: a table in shared memory, one copy for each lane so that no two want
// the same bank. Pairs are what a lane has of a left matrix.
#pragma once

#include "device/element.cuh"
#include "device/ptx/matrix.cuh"
#include "device/ptx/shared.cuh"
#include "device/reduce.cuh"
#include "ops/four_bit/geometry.h"
#include "ops/four_bit/params.h"

namespace kw {

__device__ __forceinline__ char* dynamic_shared() {
  extern __shared__ __align__(16) char matmul_4bit_shared[];
  return matmul_4bit_shared;
}

template <class T>
__device__ __forceinline__ void fill_pairs(const KwMatmul4bitParams& p) {
  const u32 pairs = shared_address(dynamic_shared());
  for (u32 i = threadIdx.x; i < kPairsBytes / 16; i += blockDim.x) {
    const u32 byte = i / (kWarp / 4), pair = T::pack(p.values[byte >> 4], p.values[byte & 15]);
    const u32 word[4] = {pair, pair, pair, pair};
    store_shared<16>(pairs + i * 16, word);
  }
}

// The pair of byte `which` of a lane's codes.
__device__ __forceinline__ u32 pair_of(u32 codes, u32 which) {
  const u32 at = which == 0 ? codes << 7 : codes >> (which * 8 - 7);
  return *reinterpret_cast<const u32*>(dynamic_shared() + ((at & 0x7f80u) | threadIdx.x % kWarp * 4));
}

template <class T>
__device__ __forceinline__ void multiply_pairs(float (&c)[4], const u32 (&a)[4], u32 low, u32 high) {
  if constexpr (T::kIsHalf) {
    multiply_half(c, a, low, high);
  } else {
    multiply_bfloat(c, a, low, high);
  }
}

}  // namespace kw
