// SPDX-License-Identifier: MIT
// A tile of a product on any GPU and wherever rows lie: 64 by 64 by a block, of which each thread has 4 rows and 4
// columns, 16 apart. What an element is, how it is read and how two are multiplied is the family's.
#pragma once

#include "device/any_tile.h"
#include "device/types.cuh"

namespace kw {

template <class Element, u32 kDepth>  // elements of a row that a stage has
struct AnyTile {
  static constexpr u32 kSide = KW_ANY_TILE, kEach = 4, kSums = kEach * kEach;
  using Stage = Element[kDepth][kSide + 1];
  i64 first_row, first_column;

  __device__ __forceinline__ explicit AnyTile(u32 columns)
      : first_row(blockIdx.x / columns * i64{kSide}), first_column(blockIdx.x % columns * i64{kSide}) {}

  // read(row, i) of each element of a stage, zeros where there is no row.
  template <class Read>
  __device__ __forceinline__ static void fetch(Stage& to, i64 first, i64 rows, Read read) {
#pragma unroll
    for (u32 i = threadIdx.x; i < kSide * kDepth; i += KW_ANY_THREADS) {
      const i64 row = first + i / kDepth;
      to[i % kDepth][i / kDepth] = row < rows ? read(row, i % kDepth) : Element{0};
    }
  }

  __device__ __forceinline__ static u32 row() { return threadIdx.x / 16; }
  __device__ __forceinline__ static u32 column() { return threadIdx.x % 16; }

  // sum = add(left, right, sum) of all that the stages have.
  template <class Sum, class Add>
  __device__ __forceinline__ static void add_all(Sum (&sum)[kSums], const Stage& left, const Stage& right, Add add) {
#pragma unroll 4
    for (u32 i = 0; i < kDepth; ++i) {
#pragma unroll
      for (u32 j = 0; j < kSums; ++j) {
        sum[j] = add(left[i][row() + j / kEach * 16], right[i][column() + j % kEach * 16], sum[j]);
      }
    }
  }

  // put(row, column, j) of each of the thread's sums, in code that stands once.
  template <class Put>
  __device__ __forceinline__ void each(Put put) const {
#pragma unroll 1
    for (u32 j = 0; j < kSums; ++j)
      put(first_row + row() + j / kEach * 16, first_column + column() + j % kEach * 16, j);
  }

  // Registers have no index: of all sums the one that is asked for.
  template <class Sum>
  __device__ __forceinline__ static Sum chosen(const Sum (&sum)[kSums], u32 j) {
    Sum value = 0;
#pragma unroll
    for (u32 s = 0; s < kSums; ++s) value = s == j ? sum[s] : value;
    return value;
  }
};

}  // namespace kw
