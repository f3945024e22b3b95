// SPDX-License-Identifier: MIT
// From a warpgroup's float32 sums to a result of 16 bits in memory: each warp brings its 16 rows through shared memory,
// 32 columns at a time, in a rolled loop. Only the stores to shared memory name registers; what follows is there once,
// whatever the activation.
#pragma once

#include "device/activation.cuh"
#include "device/element.cuh"
#include "device/ptx/memory.cuh"
#include "device/ptx/shared.cuh"

namespace kw {

struct EpilogueParams {
  char* y;
  const char* bias;  // or null
  i64 y_pitch;       // bytes
  u32 m, n;
  int activation;
  bool vectors;  // y and its pitch are for 8 bytes, and n a multiple of 4
};

template <class T>
struct Epilogue {
  static constexpr u32 kRows = 16, kSlice = 32;    // of a warp, and columns at a time
  static constexpr u32 kPitch = (kSlice + 8) * 4;  // bytes of a row: eight lanes' pairs meet in no bank
  static constexpr u32 kWarpBytes = kRows * kPitch;
  const EpilogueParams& p;
  u32 room;  // shared memory of the warp, on 16 bytes

  // The sums of 32 columns, as wgmma leaves them: slices of the first 64 rows' columns, then of the next.
  template <u32 kHalves, u32 kCount>
  __device__ __forceinline__ void put(const float (&d)[kHalves][kCount], u32 slice) const {
    const u32 lane = threadIdx.x % 32, to = room + lane / 4 * kPitch + lane % 4 * 8;
#pragma unroll
    for (u32 s = 0; s < kHalves * kCount / 16; ++s) {
      if (s != slice) continue;
      const float (&half)[kCount] = d[s / (kCount / 16)];
      const u32 first = s % (kCount / 16) * 16;
#pragma unroll
      for (u32 i = 0; i < 8; ++i) {
        const u32 word[2] = {bits_of_float(half[first + i * 2]), bits_of_float(half[first + i * 2 + 1])};
        store_shared<8>(to + i % 2 * (8 * kPitch) + i / 2 * 32, word);
      }
    }
  }

  // Four of a row, finished.
  __device__ __forceinline__ void keep(const float (&value)[4], u32 row, u32 column) const {
    if (row >= p.m || column >= p.n) return;
    const u32 pair[2] = {T::pack(value[0], value[1]), T::pack(value[2], value[3])};
    char* const to = p.y + row * p.y_pitch + column * u64{2};
    if (p.vectors) return store<8>(to, pair);
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      const u32 one[1] = {pair[i / 2] >> (i % 2 * 16)};
      if (column + i < p.n) store<2>(to + i * 2, one);
    }
  }

  // Of the lane's i-th row of a slice; lanes side by side have its columns.
  __device__ __forceinline__ void take(u32 i, const float (&bias)[4], float (&value)[4]) const {
    u32 word[4];
    load_shared<16>(room + row_of(i) * kPitch + threadIdx.x % 8 * 16, word);
#pragma unroll
    for (u32 j = 0; j < 4; ++j) value[j] = float_of_bits(word[j]) + bias[j];
  }

  __device__ __forceinline__ u32 row_of(u32 i) const { return i * 4 + threadIdx.x % 32 / 8; }

  template <int kActivation>
  __device__ __forceinline__ void rows(u32 first_row, u32 column, const float (&bias)[4]) const {
#pragma unroll
    for (u32 i = 0; i < kRows / 4; ++i) {
      float value[4];
      take(i, bias, value);
#pragma unroll
      for (u32 j = 0; j < 4; ++j) value[j] = activated<kActivation>(value[j]);
      keep(value, first_row + row_of(i), column);
    }
  }

  // The first `n` elements of the bias are those of y's columns; of a gated layer there are as many more.
  __device__ __forceinline__ void load_bias(u32 column, u32 from, float (&bias)[4]) const {
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      u32 half[1];
      bias[i] = 0.0f;
      if (p.bias == nullptr || column + i >= p.n) continue;
      load<2>(p.bias + (from + column + i) * u64{2}, half);
      bias[i] = T::low(half[0]);
    }
  }

  __device__ __forceinline__ void slice(u32 first_row, u32 column) const {
    float bias[4];
    load_bias(column, 0, bias);
    switch (p.activation) {
      case KW_ACTIVATION_RELU:
        return rows<KW_ACTIVATION_RELU>(first_row, column, bias);
      case KW_ACTIVATION_SQUARED_RELU:
        return rows<KW_ACTIVATION_SQUARED_RELU>(first_row, column, bias);
      case KW_ACTIVATION_SILU:
        return rows<KW_ACTIVATION_SILU>(first_row, column, bias);
      case KW_ACTIVATION_GELU:
        return rows<KW_ACTIVATION_GELU>(first_row, column, bias);
      case KW_ACTIVATION_GELU_TANH:
        return rows<KW_ACTIVATION_GELU_TANH>(first_row, column, bias);
      default:
        return rows<KW_ACTIVATION_NONE>(first_row, column, bias);
    }
  }

  using Values = float[kRows / 4][4];

  template <int kActivation>
  __device__ __forceinline__ void gate(u32 column, Values& gates) const {
    float bias[4];
    load_bias(column, 0, bias);
#pragma unroll
    for (u32 i = 0; i < kRows / 4; ++i) {
      take(i, bias, gates[i]);
#pragma unroll
      for (u32 j = 0; j < 4; ++j) gates[i][j] = activated<kActivation>(gates[i][j]);
    }
  }

  __device__ __forceinline__ void gate_slice(u32 column, Values& gates) const {
    switch (p.activation) {
      case KW_ACTIVATION_RELU:
        return gate<KW_ACTIVATION_RELU>(column, gates);
      case KW_ACTIVATION_SQUARED_RELU:
        return gate<KW_ACTIVATION_SQUARED_RELU>(column, gates);
      case KW_ACTIVATION_SILU:
        return gate<KW_ACTIVATION_SILU>(column, gates);
      case KW_ACTIVATION_GELU:
        return gate<KW_ACTIVATION_GELU>(column, gates);
      case KW_ACTIVATION_GELU_TANH:
        return gate<KW_ACTIVATION_GELU_TANH>(column, gates);
      default:
        return gate<KW_ACTIVATION_NONE>(column, gates);
    }
  }

  __device__ __forceinline__ void gated_slice(u32 first_row, u32 column, const Values& gates) const {
    float bias[4];
    load_bias(column, p.n, bias);
#pragma unroll
    for (u32 i = 0; i < kRows / 4; ++i) {
      float value[4];
      take(i, bias, value);
#pragma unroll
      for (u32 j = 0; j < 4; ++j) value[j] *= gates[i][j];
      keep(value, first_row + row_of(i), column);
    }
  }

  // All columns of the warp's rows: 16 from first_row on and, of each further half, 16 from `apart` rows after it on.
  template <u32 kHalves, u32 kCount>
  __device__ __forceinline__ void run(const float (&d)[kHalves][kCount], u32 first_row, u32 first_column,
                                      u32 apart = 64) const {
    constexpr u32 kSlices = kCount / 16;
#pragma unroll 1
    for (u32 i = 0; i < kHalves * kSlices; ++i) {
      __syncwarp();  // all have read the slice before
      put(d, i);
      __syncwarp();
      slice(first_row + i / kSlices * apart, first_column + i % kSlices * kSlice + threadIdx.x % 8 * 4);
    }
  }

  // The same where the first half of the sums' columns are the gates of the second: activation(first) * second.
  template <u32 kHalves, u32 kCount>
  __device__ __forceinline__ void run_gated(const float (&d)[kHalves][kCount], u32 first_row, u32 first_column,
                                            u32 apart = 64) const {
    constexpr u32 kSlices = kCount / 16, kGates = kSlices / 2;
#pragma unroll 1
    for (u32 i = 0; i < kHalves * kGates; ++i) {
      const u32 half = i / kGates, at = i % kGates, column = first_column + at * kSlice + threadIdx.x % 8 * 4;
      Values gates;
      __syncwarp();
      put(d, half * kSlices + at);
      __syncwarp();
      gate_slice(column, gates);
      __syncwarp();
      put(d, half * kSlices + kGates + at);
      __syncwarp();
      gated_slice(first_row + half * apart, column, gates);
    }
  }
};

}  // namespace kw
