// SPDX-License-Identifier: MIT
// From sums of integers to a result: times the scales of both, plus the bias, rounded once; or the sums themselves.
#pragma once

#include "device/element.cuh"
#include "device/ptx/memory.cuh"
#include "device/ptx/shared.cuh"
#include "ops/ternary/params.h"

namespace kw {

__device__ __forceinline__ float load_float(const char* from, u64 index) {
  u32 word[1];
  load<4>(from + index * 4, word);
  return float_of_bits(word[0]);
}

__device__ __forceinline__ float ternary_row_scale(const KwTernaryEnd& end, u32 row) {
  return end.absmax == nullptr ? 1.0f : load_float(end.absmax, row) * (1.0f / 127.0f);
}

__device__ __forceinline__ float ternary_column_scale(const KwTernaryEnd& end, u32 column) {
  return end.scale == nullptr ? 1.0f : load_float(end.scale, end.scales != 0 ? column : 0);
}

__device__ __forceinline__ float ternary_bias(const KwTernaryEnd& end, u32 column) {
  if (end.bias == nullptr) return 0.0f;
  u32 word[1];
  if (end.type == KW_TERNARY_FLOAT32) return load_float(end.bias, column);
  load<2>(end.bias + column * u64{2}, word);
  return end.type == KW_TERNARY_FLOAT16 ? Float16::low(word[0]) : BFloat16::low(word[0]);
}

__device__ __forceinline__ float ternary_value(int sum, float row, float column, float bias) {
  return fmaf(static_cast<float>(sum) * row, column, bias);
}

// One element.
__device__ __forceinline__ void ternary_put(const KwTernaryEnd& end, u32 row, u32 column, int sum, float row_scale) {
  char* const to = end.y + row * end.y_pitch;
  if (end.type == KW_TERNARY_INT32) {
    const u32 word[1] = {static_cast<u32>(sum)};
    return store<4>(to + column * u64{4}, word);
  }
  const float value = ternary_value(sum, row_scale, ternary_column_scale(end, column), ternary_bias(end, column));
  if (end.type == KW_TERNARY_FLOAT32) {
    const u32 word[1] = {bits_of_float(value)};
    return store<4>(to + column * u64{4}, word);
  }
  const u32 word[1] = {end.type == KW_TERNARY_FLOAT16 ? half_pair(value, 0.0f) : bfloat_pair(value, 0.0f)};
  store<2>(to + column * u64{2}, word);
}

// What a warp's tile of 16 rows of the weight and columns that are rows of x ends with. Sums lie as mma.sync and wgmma
// leave them; they go through shared memory, 32 rows of x at a time, so that a lane has 16 neighbours of one row.
struct TernaryEpilogue {
  static constexpr u32 kPitch = 20;  // words: no two lanes meet in a bank, going in or out
  const KwTernaryEnd& end;
  u32 room;  // shared memory of the warp, on 16 bytes

  template <u32 kHalves, u32 kCount>
  __device__ __forceinline__ void put(const int (&d)[kHalves][kCount], u32 slice) const {
    const u32 lane = threadIdx.x % 32, to = room + (lane % 4 * 2 * kPitch + lane / 4) * 4;
#pragma unroll
    for (u32 s = 0; s < kHalves * kCount / 16; ++s) {
      if (s != slice) continue;
#pragma unroll
      for (u32 i = 0; i < 16; ++i) {
        const u32 word[1] = {static_cast<u32>(d[s / (kCount / 16)][s % (kCount / 16) * 16 + i])};
        store_shared<4>(to + ((i / 4 * 8 + i % 2) * kPitch + i / 2 % 2 * 8) * 4, word);
      }
    }
  }

  // Words of a row, stored as wide as it allows.
  template <u32 kWords>
  __device__ __forceinline__ void store_words(char* to, const u32 (&word)[kWords], u32 count) const {
    if (count == kWords && reinterpret_cast<u64>(to) % 16 == 0) {
#pragma unroll
      for (u32 i = 0; i < kWords; i += 4) store<16>(to + i * 4, word + i);
      return;
    }
#pragma unroll
    for (u32 i = 0; i < kWords; ++i) {
      if (i < count) store<4>(to + i * 4, word + i);
    }
  }

  __device__ __forceinline__ void store_pairs(char* to, const u32 (&pair)[4], u32 count) const {
    if (count == 8 && reinterpret_cast<u64>(to) % 16 == 0) return store<16>(to, pair);
#pragma unroll
    for (u32 i = 0; i < 8; ++i) {
      const u32 one[1] = {pair[i / 2] >> (i % 2 * 16)};
      if (i < count) store<2>(to + i * 2, one);
    }
  }

  // Eight of a row.
  __device__ __forceinline__ void eight(u32 from, u32 row, u32 column, float row_scale) const {
    const u32 left = end.n - column, count = left < 8 ? left : 8;
    u32 word[8];
    load_shared<16>(from, word);
    load_shared<16>(from + 16, word + 4);
    char* const to = end.y + row * end.y_pitch;
    if (end.type != KW_TERNARY_INT32) {
      const float first = ternary_column_scale(end, column);
#pragma unroll
      for (u32 i = 0; i < 8; ++i) {
        const float scale = end.scales != 0 && i < count ? ternary_column_scale(end, column + i) : first;
        const float bias = end.bias != nullptr && i < count ? ternary_bias(end, column + i) : 0.0f;
        word[i] = bits_of_float(ternary_value(static_cast<int>(word[i]), row_scale, scale, bias));
      }
    }
    if (end.type == KW_TERNARY_INT32 || end.type == KW_TERNARY_FLOAT32)
      return store_words(to + column * u64{4}, word, count);
    u32 pair[4];
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      const float low = float_of_bits(word[2 * i]), high = float_of_bits(word[2 * i + 1]);
      pair[i] = end.type == KW_TERNARY_FLOAT16 ? half_pair(low, high) : bfloat_pair(low, high);
    }
    store_pairs(to + column * u64{2}, pair, count);
  }

  // All of the sums: columns of the tile are rows of x from first_row on; halves are `apart` rows of the weight apart.
  template <u32 kHalves, u32 kCount>
  __device__ __forceinline__ void run(const int (&d)[kHalves][kCount], u32 first_row, u32 first_column,
                                      u32 apart) const {
    constexpr u32 kSlices = kCount / 16;
#pragma unroll 1
    for (u32 slice = 0; slice < kHalves * kSlices; ++slice) {
      __syncwarp();  // all have read the slice before
      put(d, slice);
      __syncwarp();
      const u32 lane = threadIdx.x % 32, row = first_row + slice % kSlices * 32 + lane;
      const u32 column = first_column + slice / kSlices * apart;
      const float row_scale = row < end.m ? ternary_row_scale(end, row) : 0.0f;
#pragma unroll 1
      for (u32 i = 0; i < 16; i += 8) {
        if (row < end.m && column + i < end.n) eight(room + (lane * kPitch + i) * 4, row, column + i, row_scale);
      }
    }
  }
};

}  // namespace kw
