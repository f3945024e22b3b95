// SPDX-License-Identifier: MIT
// The same on any GPU, of any element type and wherever rows lie; sums in float32.
#pragma once

#include "device/activate.cuh"
#include "device/any_tile.cuh"
#include "device/element.cuh"
#include "device/ptx/memory.cuh"
#include "ops/linear/params.h"

namespace kw {

template <class T>
__device__ __forceinline__ float linear_element(const char* from) {
  u32 word[1];
  load<T::kSize>(from, word);
  if constexpr (T::kSize == 4) {
    return float_of_bits(word[0]);
  } else {
    return T::low(word[0]);
  }
}

template <class T, bool kGated>
struct LinearAny {
  static constexpr u32 kDepth = 16;
  using Tile = AnyTile<float, kDepth>;
  using Stage = typename Tile::Stage;
  const KwLinearAnyParams& p;
  const Tile tile;

  __device__ __forceinline__ explicit LinearAny(const KwLinearAnyParams& p) : p(p), tile(p.columns) {}

  __device__ __forceinline__ void fetch(Stage& to, const char* from, i64 pitch, i64 first, i64 rows, i64 k) const {
    Tile::fetch(to, first, rows, [=](i64 row, u32 i) {
      return k + i < p.k ? linear_element<T>(from + row * pitch + (k + i) * T::kSize) : 0.0f;
    });
  }

  // `times`: of a gated layer, the sum that its gate is for.
  __device__ __forceinline__ void put(i64 row, i64 column, float sum, float times) const {
    if (row >= p.m || column >= p.n) return;
    if (p.bias != nullptr) {
      sum += linear_element<T>(p.bias + column * T::kSize);
      if (kGated) times += linear_element<T>(p.bias + (p.n + column) * T::kSize);
    }
    float of_sum[1] = {sum};
    activate(of_sum, p.activation);
    const float value = kGated ? of_sum[0] * times : of_sum[0];
    u32 word[1] = {bits_of_float(value)};
    if constexpr (T::kSize == 2) word[0] = T::pack(value, 0.0f);
    store<T::kSize>(p.y + row * p.y_pitch + column * T::kSize, word);
  }

  using Sums = float[Tile::kSums];

  __device__ __forceinline__ static void add(Sums& sum, const Stage& left, const Stage& right) {
    Tile::add_all(sum, left, right, [](float a, float b, float before) { return fmaf(a, b, before); });
  }

  __device__ __forceinline__ void run() const {
    __shared__ Stage left;
    __shared__ Stage right[kGated ? 2 : 1];
    Sums sum[kGated ? 2 : 1] = {};
#pragma unroll 1
    for (i64 k = 0; k < p.k; k += kDepth) {
      fetch(left, p.x, p.x_pitch, tile.first_row, p.m, k);
      fetch(right[0], p.weight, p.weight_pitch, tile.first_column, p.n, k);
      if constexpr (kGated) fetch(right[1], p.weight + p.n * p.weight_pitch, p.weight_pitch, tile.first_column, p.n, k);
      __syncthreads();
      add(sum[0], left, right[0]);
      if constexpr (kGated) add(sum[1], left, right[1]);
      __syncthreads();
    }
    tile.each([&](i64 row, i64 column, u32 j) {
      put(row, column, Tile::chosen(sum[0], j), kGated ? Tile::chosen(sum[kGated ? 1 : 0], j) : 1.0f);
    });
  }
};

}  // namespace kw
