// SPDX-License-Identifier: MIT
// Elements of a row that lie in none of its whole vectors: fewer than a vector's before the first and after the last.
// The words that hold them are copied as the vectors are; then lanes of one warp have an element each.
#pragma once

#include "norm_backward_place.cuh"
#include "ptx_async.cuh"
#include "ptx_shared.cuh"

namespace kw {

constexpr u32 kLooseWords = 8;   // of a tensor's row: half of them before its units
constexpr u32 kLooseStages = 3;  // rows on their way, and the one that is differentiated

struct LooseScratch {
  u32 word[kLooseStages][3][kLooseWords];  // of dy, h and dsum
};

template <class Scratch>
struct WithLoose : Scratch {
  LooseScratch loose;
};

template <class T>
__device__ __forceinline__ float element_of(u32 word) {
  Unit<T, T::kSize> unit;
  float value;
  unit.word[0] = word & 0xffffu;
  unit.unpack(&value);
  return value;
}

template <int kSize>
__device__ __forceinline__ u32 load_element(const char* from) {
  u32 word[1];
  load<kSize>(from, word);
  return word[0];
}

// What a lane has of a row, of elements of 16 bits. `head` and `tail` are how many there are, at most 7 each.
struct LooseLane {
  u32 head, tail;

  // The word of a row that this lane copies.
  __device__ __forceinline__ static u32 lane() { return threadIdx.x % kWarp; }
  __device__ __forceinline__ bool copies() const {
    const u32 element = lane() % 4 * 2;
    return lane() < 4 ? element + 1 + head >= 8 : lane() < kLooseWords && element < tail;
  }
  __device__ __forceinline__ bool begins_before() const { return lane() < 4 && lane() * 2 + head < 8; }
  __device__ __forceinline__ bool ends_after() const { return lane() >= 4 && lane() % 4 * 2 + 1 >= tail; }

  __device__ __forceinline__ u32 count() const { return head + tail; }
  __device__ __forceinline__ bool has() const { return lane() < count(); }
  // Where this lane's element is among those of all words.
  __device__ __forceinline__ u32 element() const { return lane() + 8 - head; }
};

}  // namespace kw
