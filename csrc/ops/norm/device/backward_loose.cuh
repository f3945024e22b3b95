// SPDX-License-Identifier: MIT
// Elements of a row that lie in none of its whole vectors: fewer than a vector's before the first and after the last.
// The words that hold them are copied as the vectors are; then lanes of one warp have an element each.
#pragma once

#include "device/ptx/async.cuh"
#include "device/ptx/shared.cuh"
#include "ops/norm/device/backward_place.cuh"

namespace kw {

constexpr u32 kLooseBefore = 8;  // words of a tensor's row before its units, at most
constexpr u32 kLooseWords = kLooseBefore + 4;
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

// What a lane has of a row, of elements of 16 bits. `head` and `tail` are how many there are, at most 15 and 7.
struct LooseLane {
  static constexpr u32 kBefore = 2 * kLooseBefore;  // elements
  u32 head, tail;

  __device__ __forceinline__ static u32 lane() { return threadIdx.x % kWarp; }
  __device__ __forceinline__ static bool is_before() { return lane() < kLooseBefore; }
  __device__ __forceinline__ u32 count() const { return head + tail; }
  // Of BackwardPlace's `shapes`. A lane copies the word of its number, if any of that is the row's.
  __device__ __forceinline__ u32 shapes() const {
    const u32 begin = lane() * 2, from = kBefore - head, to = kBefore + tail;
    u32 of = lane() < count() ? kHasElement : 0;
    if (begin + 1 < from || begin >= to) return of;
    of |= kCopiesWord;
    if (begin < from) of |= kBeginsBefore;
    if (begin + 1 >= to) of |= kEndsAfter;
    return of;
  }
  // Where this lane's element is among those of all words.
  __device__ __forceinline__ u32 element() const { return lane() + kBefore - head; }
};

}  // namespace kw
