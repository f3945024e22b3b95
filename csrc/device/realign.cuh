// SPDX-License-Identifier: MIT
// Vectors at addresses that are multiples of an element's size only: aligned vectors, shifted into place.
#pragma once

#include "device/ptx/math.cuh"
#include "device/ptx/memory.cuh"
#include "device/reduce.cuh"

namespace kw {

// The 16 bytes that begin `off` bytes after those of `low`; `high` follows `low` in memory. `off` is below 16 and a
// multiple of kSize, the size of an element.
template <int kSize>
__device__ __forceinline__ void realign(const u32 (&low)[4], const u32 (&high)[4], u32 off, u32* word) {
  u32 from[8] = {low[0], low[1], low[2], low[3], high[0], high[1], high[2], high[3]};
#pragma unroll
  for (int i = 0; i < 6; ++i) from[i] = off & 8 ? from[i + 2] : from[i];
#pragma unroll
  for (int i = 0; i < 5; ++i) from[i] = off & 4 ? from[i + 1] : from[i];
  const u32 bytes = off & 2 ? 0x5432 : 0x3210;
#pragma unroll
  for (int i = 0; i < 4; ++i) word[i] = kSize < 4 ? byte_permute(from[i], from[i + 1], bytes) : from[i];
}

// 16 bytes from an address that is a multiple of kSize. Reads the aligned vectors they lie in: up to 16 - kSize bytes
// more on either side, which must be the caller's too.
template <int kSize>
__device__ __forceinline__ void load_unaligned(const void* from, u32* word) {
  const u32 off = static_cast<u32>(reinterpret_cast<u64>(from)) & 15u;
  const char* base = static_cast<const char*>(from) - off;
  u32 low[4], high[4] = {};
  load<16>(base, low);
  if (off != 0) load<16>(base + 16, high);
  realign<kSize>(low, high, off, word);
}

// Those of the 16 bytes at `from` that are elements from `first` on, before `end`; zeros for the others. One by one:
// for the ends of tensors, around which there may be nothing to read.
template <class T>
__device__ __forceinline__ void load_elements(const char* from, u32 first, u32 end, u32* word) {
  constexpr u32 kSize = T::kSize;
#pragma unroll
  for (int i = 0; i < 4; ++i) word[i] = 0;
#pragma unroll 1
  for (u32 i = 16 / kSize; i-- > 0;) {
    u32 element[1] = {0};
    if (i >= first && i < end) load<kSize>(from + i * kSize, element);
#pragma unroll
    for (int j = 3; j > 0; --j) word[j] = kSize == 4 ? word[j - 1] : word[j] << 16 | word[j - 1] >> 16;
    word[0] = kSize == 4 ? element[0] : word[0] << 16 | element[0];
  }
}

// The first `count` elements of 16 bytes, or all where there are more; zeros after them. Reads aligned vectors that
// hold some of them, but nothing outside the tensor, which lies from `begin` to `end`.
template <class T>
__device__ __forceinline__ void load_first(const char* from, u32 count, const char* begin, const char* end, u32* word) {
  constexpr u32 kSize = T::kSize;
  const u32 off = static_cast<u32>(reinterpret_cast<u64>(from)) & 15u, bytes = count < 16 / kSize ? count * kSize : 16;
  const bool both = off + bytes > 16;
  if (from - off < begin || from - off + (both ? 32 : 16) > end) return load_elements<T>(from, 0, count, word);
  u32 low[4], high[4] = {};
  load<16>(from - off, low);
  if (both) load<16>(from - off + 16, high);
  realign<kSize>(low, high, off, word);
  if (bytes == 16) return;
#pragma unroll
  for (u32 i = 0; i < 4; ++i) word[i] &= bytes >= i * 4 + 4 ? 0xffffffffu : bytes > i * 4 ? 0xffffu : 0u;
}

// Stores the first `count` elements of `word` at an address that is a multiple of kSize. All lanes of a warp call it;
// those of each `group` have consecutive addresses, 16 bytes apart, and what is between two of them goes out as one
// aligned vector. `count` is no less in a lane than in those after it.
template <int kSize>
__device__ __forceinline__ void store_unaligned(char* to, const u32 (&word)[4], u32 count, u32 group) {
  constexpr u32 kCount = 16 / kSize;
  const u32 off = static_cast<u32>(reinterpret_cast<u64>(to)) & 15u, place = threadIdx.x % group;
  const u32 rest = (16 - off) / kSize;  // elements before the next aligned vector
  u32 before[4], vector[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) before[i] = shuffle_up(word[i]);
  const bool next_whole = shuffle_down(count) == kCount && place + 1 < group;
  const bool as_vector = count == kCount && (off == 0 || place > 0);
  if (as_vector) {
    realign<kSize>(before, word, (16 - off) & 15u, vector);
#pragma unroll
    for (int i = 0; i < 4; ++i) vector[i] = off == 0 ? word[i] : vector[i];
    store<16>(to - off, vector);
  }
  const u32 begin = as_vector ? rest : 0, end = count == kCount && next_whole ? rest : count;
#pragma unroll
  for (u32 i = 0; i < kCount; ++i) {
    if (i < begin || i >= end) continue;
    const u32 element[1] = {kSize == 4 ? word[i % 4] : word[i / 2 % 4] >> (i % 2 * 16)};
    store<kSize>(to + i * kSize, element);
  }
}

}  // namespace kw
