// SPDX-License-Identifier: MIT
// The table of pairs that matmul_gemv.cuh looks codes up in. What a byte of codes stands for begins at 256 times
// that byte, so that an address is one permutation of bytes: the lane's offset, the code. Of the 256 bytes the first
// half is the pair, once for each lane so that no two want the same bank; where scales are quantized the second half is
// the value of that byte as a scale's code, for each lane too.
#pragma once

#include "device/ptx/async.cuh"
#include "device/ptx/math.cuh"
#include "device/ptx/memory.cuh"
#include "device/ptx/shared.cuh"
#include "device/reduce.cuh"
#include "ops/four_bit/device/matmul_pairs.cuh"
#include "ops/four_bit/geometry.h"
#include "ops/four_bit/params.h"

namespace kw {

// Eight neighbours begin at eight different places, each of four banks.
__device__ __forceinline__ void fill_entry(u32 at, u32 value) {
  const u32 entry = shared_address(dynamic_shared()) + threadIdx.x * kEntryBytes + at;
  const u32 word[4] = {value, value, value, value};
#pragma unroll
  for (u32 i = 0; i < 8; ++i) store_shared<16>(entry + (threadIdx.x + i) % 8 * 16, word);
}

template <class T>
__device__ __forceinline__ void fill_table(const KwMatmul4bitParams& p) {
  fill_entry(0, T::pack(p.values[threadIdx.x >> 4], p.values[threadIdx.x & 15]));
}

// Where a thread's value of a scale's code comes to by a copy.
__device__ __forceinline__ u32 map_address() {
  return shared_address(dynamic_shared()) + threadIdx.x * kEntryBytes + kMapAt + threadIdx.x % kWarp * 4;
}

// What is added to all values of a part's scales has its place in shared memory so that nobody waits for a register.
// The last part's has two: lanes that have no k of the last row ask for that of a row behind it, and use it not.
__device__ __forceinline__ u32 offset_address(u32 part) {
  return shared_address(dynamic_shared()) + kOffsetAt + part * 4;
}

__device__ __forceinline__ bool brings_offset(const KwMatmul4bitParams& p) { return threadIdx.x <= p.scales.parts; }

__device__ __forceinline__ const char* offset_to_bring(const KwMatmul4bitParams& p) {
  return p.scales.offset + (threadIdx.x < p.scales.parts ? threadIdx.x : p.scales.parts - 1) * u64{4};
}

// Asks for the values of scales' codes and what is added to them by copies: a wait for a register that was loaded is
// one for what is loaded after it too.
__device__ __forceinline__ void send_for_map(const KwMatmul4bitParams& p) {
  copy_word_async(map_address(), p.scales.map + threadIdx.x * 4);
  if (brings_offset(p)) copy_word_async(offset_address(threadIdx.x), offset_to_bring(p));
  copies_commit();
}

// Both to their places, whether they were sent for or are to be loaded now: the kernel before may have written them.
template <bool kSent>
__device__ __forceinline__ void fill_map(const KwMatmul4bitParams& p) {
  u32 word[1];
  if constexpr (kSent) {
    copies_wait<0>();
    load_shared<4>(map_address(), word);
    fill_entry(kMapAt, word[0]);
  } else {
    u32 offset[1] = {0};
    load<4>(p.scales.map + threadIdx.x * 4, word);
    if (brings_offset(p)) load<4>(offset_to_bring(p), offset);
    fill_entry(kMapAt, word[0]);
    if (brings_offset(p)) store_shared<4>(offset_address(threadIdx.x), offset);
  }
}

// From the beginning of the table to the entry of byte `which` of a word, for a lane whose offset is four times its
// number.
__device__ __forceinline__ u32 table_address(u32 word, u32 which, u32 lane_offset) {
  return byte_permute(word, lane_offset, 0x5504 | which << 4);
}

// The pair there. Not by the address of shared memory, which would have to be added.
__device__ __forceinline__ u32 look_up(u32 word, u32 which, u32 lane_offset) {
  return *reinterpret_cast<const u32*>(dynamic_shared() + table_address(word, which, lane_offset));
}

}  // namespace kw
