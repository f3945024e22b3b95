// SPDX-License-Identifier: MIT
// The first and the last unit of a row that begins or ends off 16 bytes: parts of them are the row's. Of a unit that is
// a part of a row either the first element is the row's or the last.
#pragma once

#include "device/ptx/async.cuh"
#include "device/ptx/memory.cuh"

namespace kw {

// Which elements of a unit are the row's.
struct Part {
  u32 begin, end;
};

// Where pieces of 8, 4 and 2 bytes, of which a part has at most one each, lie in their unit.
template <int kSize>
struct Pieces {
  u32 bytes, at8, at4, at2;

  __device__ __forceinline__ explicit Pieces(const Part& part) : bytes((part.end - part.begin) * kSize) {
    const bool first = part.begin == 0;
    at8 = first ? 0 : 8;
    at4 = first ? bytes & 8 : 16 - (bytes & 12);
    at2 = first ? bytes & 12 : 16 - bytes;
  }
};

__device__ __forceinline__ u32 word_at(const u32* word, u32 byte) {
  const u32 low = byte & 4 ? word[1] : word[0], high = byte & 4 ? word[3] : word[2];
  return byte & 8 ? high : low;
}

template <int kSize>
__device__ __forceinline__ void store_part(char* to, const u32* word, const Part& part) {
  const Pieces<kSize> of(part);
  const u32 low[1] = {of.at8 == 0 ? word[0] : word[2]}, high[1] = {of.at8 == 0 ? word[1] : word[3]};
  if (of.bytes & 8) {
    store<4>(to + of.at8, low);
    store<4>(to + of.at8 + 4, high);
  }
  const u32 four[1] = {word_at(word, of.at4)};
  if (of.bytes & 4) store<4>(to + of.at4, four);
  if constexpr (kSize == 2) {
    const u32 pair = word_at(word, of.at2), two[1] = {of.at2 & 2 ? pair >> 16 : pair};
    if (of.bytes & 2) store<2>(to + of.at2, two);
  }
}

// Zeros for what is not the row's.
template <int kSize>
__device__ __forceinline__ void load_part(const char* from, u32* word, const Part& part) {
  const Pieces<kSize> of(part);
  u32 eight[2] = {0, 0}, four[1] = {0}, two[1] = {0};
  if (of.bytes & 8) load<8>(from + of.at8, eight);
  if (of.bytes & 4) load<4>(from + of.at4, four);
  if (kSize == 2 && of.bytes & 2) load<2>(from + of.at2, two);
#pragma unroll
  for (u32 i = 0; i < 4; ++i) {
    const u32 half = of.at2 & 2 ? two[0] << 16 : two[0];
    word[i] =
        (of.at8 / 4 == i / 2 * 2 ? eight[i % 2] : 0) | (of.at4 / 4 == i ? four[0] : 0) | (of.at2 / 4 == i ? half : 0);
  }
}

// In shared memory, `other` (a pair, of elements of two bytes) for what is not the row's.
template <int kSize>
__device__ __forceinline__ void fill_around(u32 at, const Part& part, u32 other) {
  u32 word[4];
  load_shared(at, word);
#pragma unroll
  for (u32 i = 0; i < 4; ++i) {
    u32 mask = 0;
#pragma unroll
    for (u32 j = 0; j < 4 / kSize; ++j) {
      const u32 element = i * 4 / kSize + j;
      if (element >= part.begin && element < part.end) mask |= (kSize == 4 ? 0xffffffffu : 0xffffu) << (j * 16);
    }
    word[i] = (word[i] & mask) | (other & ~mask);
  }
  store_shared(at, word);
}

}  // namespace kw
