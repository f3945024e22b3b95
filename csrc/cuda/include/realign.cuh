// SPDX-License-Identifier: MIT
// Vectors from addresses that are multiples of an element's size only: two aligned vectors, shifted into place.
#pragma once

#include "ptx_math.cuh"
#include "ptx_memory.cuh"

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
// more on either side.
template <int kSize>
__device__ __forceinline__ void load_unaligned(const void* from, u32* word) {
  const u32 off = static_cast<u32>(reinterpret_cast<u64>(from)) & 15u;
  const char* base = static_cast<const char*>(from) - off;
  u32 low[4], high[4] = {};
  load<16>(base, low);
  if (off != 0) load<16>(base + 16, high);
  realign<kSize>(low, high, off, word);
}

}  // namespace kw
