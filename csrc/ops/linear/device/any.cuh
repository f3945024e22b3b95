// SPDX-License-Identifier: MIT
// The same on any GPU, of any element type and wherever rows lie: tiles of 64 by 64, sums in float32.
#pragma once

#include "device/activation.cuh"
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
  static constexpr u32 kTile = KW_LINEAR_ANY_TILE, kDepth = 16, kThreads = KW_LINEAR_ANY_THREADS,
                       kEach = 4;  // a thread has 4 rows and 4 columns
  using Stage = float[kDepth][kTile + 1];
  const KwLinearAnyParams& p;
  i64 first_row, first_column;

  __device__ __forceinline__ explicit LinearAny(const KwLinearAnyParams& p)
      : p(p), first_row(blockIdx.x / p.columns * i64{kTile}), first_column(blockIdx.x % p.columns * i64{kTile}) {}

  // Rows of a factor, 16 of k; zeros outside it.
  __device__ __forceinline__ void fetch(Stage& to, const char* from, i64 pitch, i64 first, i64 rows, i64 k) const {
#pragma unroll
    for (u32 i = threadIdx.x; i < kTile * kDepth; i += kThreads) {
      const i64 row = first + i / kDepth, at = k + i % kDepth;
      float value = 0.0f;
      if (row < rows && at < p.k) value = linear_element<T>(from + row * pitch + at * T::kSize);
      to[i % kDepth][i / kDepth] = value;
    }
  }

  __device__ __forceinline__ float activate(float value) const {
    switch (p.activation) {
      case KW_ACTIVATION_RELU:
        return activated<KW_ACTIVATION_RELU>(value);
      case KW_ACTIVATION_SQUARED_RELU:
        return activated<KW_ACTIVATION_SQUARED_RELU>(value);
      case KW_ACTIVATION_SILU:
        return activated<KW_ACTIVATION_SILU>(value);
      case KW_ACTIVATION_GELU:
        return activated<KW_ACTIVATION_GELU>(value);
      case KW_ACTIVATION_GELU_TANH:
        return activated<KW_ACTIVATION_GELU_TANH>(value);
      default:
        return value;
    }
  }

  // `times`: of a gated layer, the sum that its gate is for.
  __device__ __forceinline__ void put(i64 row, i64 column, float sum, float times) const {
    if (row >= p.m || column >= p.n) return;
    if (p.bias != nullptr) {
      sum += linear_element<T>(p.bias + column * T::kSize);
      if (kGated) times += linear_element<T>(p.bias + (p.n + column) * T::kSize);
    }
    const float value = kGated ? activate(sum) * times : activate(sum);
    u32 word[1] = {bits_of_float(value)};
    if constexpr (T::kSize == 2) word[0] = T::pack(value, 0.0f);
    store<T::kSize>(p.y + row * p.y_pitch + column * T::kSize, word);
  }

  using Sums = float[kEach * kEach];

  __device__ __forceinline__ void add(Sums& sum, const Stage& left, const Stage& right) const {
    const u32 row = threadIdx.x / 16, column = threadIdx.x % 16;
#pragma unroll
    for (u32 i = 0; i < kDepth; ++i) {
#pragma unroll
      for (u32 j = 0; j < kEach * kEach; ++j) {
        sum[j] = fmaf(left[i][row + j / kEach * 16], right[i][column + j % kEach * 16], sum[j]);
      }
    }
  }

  __device__ __forceinline__ float chosen(const Sums& sum, u32 j, u32 i) const {
    float value = 0.0f;
#pragma unroll
    for (u32 s = 0; s < kEach; ++s) value = s == j ? sum[s * kEach + i] : value;
    return value;
  }

  __device__ __forceinline__ void run() const {
    __shared__ Stage left;
    __shared__ Stage right[kGated ? 2 : 1];
    const u32 row = threadIdx.x / 16, column = threadIdx.x % 16;
    Sums sum[kGated ? 2 : 1] = {};
#pragma unroll 1
    for (i64 k = 0; k < p.k; k += kDepth) {
      fetch(left, p.x, p.x_pitch, first_row, p.m, k);
      fetch(right[0], p.weight, p.weight_pitch, first_column, p.n, k);
      if constexpr (kGated) fetch(right[1], p.weight + p.n * p.weight_pitch, p.weight_pitch, first_column, p.n, k);
      __syncthreads();
      add(sum[0], left, right[0]);
      if constexpr (kGated) add(sum[1], left, right[1]);
      __syncthreads();
    }
#pragma unroll 1
    for (u32 j = 0; j < kEach; ++j) {
#pragma unroll
      for (u32 i = 0; i < kEach; ++i) {
        const float times = kGated ? chosen(sum[kGated ? 1 : 0], j, i) : 1.0f;
        put(first_row + row + j * 16, first_column + column + i * 16, chosen(sum[0], j, i), times);
      }
    }
  }
};

}  // namespace kw
