// SPDX-License-Identifier: MIT
// Turns a tile of bytes in shared memory, of keys by elements to elements by keys, as products of e4m3 want the right
// matrix: with k, here the keys, as the faster dimension.
#pragma once

#include "device/ptx/math.cuh"
#include "device/ptx/matrix_transposed.cuh"
#include "device/ptx/stmatrix.cuh"

namespace kw {

#ifdef KW_HAS_TMA

// Where a 16-byte chunk of a row of kRowBytes lies under the swizzle of as many bytes.
template <u32 kRowBytes>
__device__ __forceinline__ u32 swizzled_chunk(u32 row, u32 chunk) {
  const u32 linear = row * kRowBytes + chunk * 16;
  return linear ^ (linear >> 7 & (kRowBytes / 16 - 1)) << 4;
}

// One warp, a unit of 32 keys by 16 elements at a time: those with numbers `first`, `first` + `step`, … of a tile of
// kKeys rows of kD bytes at `from`, to kD rows of kKeys bytes at `to`, both under their swizzles.
//
// Of each 16 keys the order becomes 0 1 8 9, 2 3 10 11, 4 5 12 13, 6 7 14 15: a lane of a warpgroup then has the scores
// of the four keys that it multiplies together. ldmatrix moves pairs of bytes, elements 2 i and 2 i + 1 of a key; two
// permutations of bytes part them. Lanes of the upper half write the odd one of the two first, so that no two of the
// eight rows that are written at once meet in a bank.
template <u32 kKeys, u32 kD>
__device__ __forceinline__ void turn_bytes(u32 from, u32 to, u32 first, u32 step) {
  constexpr u32 kChunks = kD / 16, kUnits = kKeys / 32 * kChunks;
  const u32 lane = threadIdx.x % 32, matrix = lane / 8, row = lane % 8;
  const u32 even = lane < 16 ? 0x6420 : 0x7531, odd = lane < 16 ? 0x7531 : 0x6420;
  const u32 element = 2 * row + (row / 4 ^ matrix % 2);
#pragma unroll 2
  for (u32 unit = first; unit < kUnits; unit += step) {
    const u32 chunk = unit % kChunks, keys = unit / kChunks * 32;
    u32 pairs[4];
    load_matrices_transposed(from + swizzled_chunk<kD>(keys + lane, chunk), pairs);
    const u32 turned[4] = {byte_permute(pairs[0], pairs[1], even), byte_permute(pairs[0], pairs[1], odd),
                           byte_permute(pairs[2], pairs[3], even), byte_permute(pairs[2], pairs[3], odd)};
    store_matrices(to + swizzled_chunk<kKeys>(chunk * 16 + element, keys / 16 + matrix / 2), turned);
  }
}

#endif

}  // namespace kw
