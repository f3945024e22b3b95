// SPDX-License-Identifier: MIT
// Rows that lie anyhow: their whole units, loads and stores of these, and the elements before and after them.
#pragma once

#include "ops/norm/device/common.cuh"

namespace kw {

// The part of a row that is done in whole units of y: where it begins, in elements, and how many they are. Of what is
// read a unit may lie in two aligned vectors: so much is left at both ends that neither reaches beyond the row.
struct Span {
  u32 head;
  u32 units;
};

// The launcher gives such rows of more columns than a warp has lanes, so there is a unit at least. The first begins
// kCount elements later than it could: its first vector may begin fewer than that before it.
template <class T>
__device__ __forceinline__ Span span_of(const Params& p, i64 row) {
  constexpr u32 kCount = 16 / T::kSize;
  const u32 off = -static_cast<u32>(reinterpret_cast<u64>(p.y) + row * p.y_pitch) & 15u;
  const u32 head = off / T::kSize + kCount;
  return {head, (p.cols - head - (kCount - 1)) / kCount};
}

// One element, for the ends of a shifted row: fewer than two units' before the first unit, one for each thread from 0
// on, and as few after the last, one for each thread from kSplit on.
template <class T>
struct Edge {
  int column = -1;
  float h[1] = {0.0f};

  static constexpr u32 kCount = 16 / T::kSize, kSplit = 2 * kCount;

  __device__ __forceinline__ void find(u32 thread, const Span& span, u32 cols) {
    const u32 tail = cols - span.head - span.units * kCount;
    if (thread < span.head) column = thread;
    if (thread >= kSplit && thread - kSplit < tail) column = cols - tail + thread - kSplit;
  }

  __device__ __forceinline__ void read(const Params& p, i64 row, bool adds) {
    if (column < 0) return;
    const u32 offset = column * T::kSize;
    Unit<T, T::kSize> unit;
    load<T::kSize>(p.x + row * p.x_pitch + offset, unit.word);
    unit.unpack(h);
    if (adds) {
      float r;
      load<T::kSize>(p.residual + row * p.residual_pitch + offset, unit.word);
      unit.unpack(&r);
      h[0] += r;
      store_unit<T, T::kSize>(p.sum + row * p.sum_pitch + offset, h);
    }
  }

  template <bool kCentered>
  __device__ __forceinline__ void finish(const Params& p, i64 row, const Statistics& of_row) {
    if (column < 0) return;
    Columns<kCentered, T, T::kSize> columns;
    columns.load(p, column);
    normalise(p, of_row, column, columns, h);
    store_unit<T, T::kSize>(p.y + row * p.y_pitch + column * T::kSize, h);
  }
};

template <class T, int kCount>
__device__ __forceinline__ void store_anyhow(char* to, bool alike, const float (&value)[kCount]) {
  if (alike) return store_unit<T, 16>(to, value);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const float element[1] = {value[i]};
    store_unit<T, T::kSize>(to + i * T::kSize, element);
  }
}

}  // namespace kw
