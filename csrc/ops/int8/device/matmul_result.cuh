// SPDX-License-Identifier: MIT
// From sums of products to elements of the result: scales, bias, of sums in float32 an activation, and the element
// type, which is known at run time: this is a small part of a product, and stands once in a kernel.
#pragma once

#include "device/activate.cuh"
#include "device/element.cuh"
#include "device/ptx/memory.cuh"
#include "device/ptx/shared.cuh"
#include "ops/int8/matmul_params.h"

namespace kw {

__device__ __forceinline__ float matmul_float(const char* from, i64 at) {
  u32 word[1];
  load<4>(from + at * 4, word);
  return float_of_bits(word[0]);
}

// kCount columns next to each other. Sums are int, which may be the result, or float, which an activation may follow.
template <u32 kCount, class Sum = int>
struct MatmulColumns {
  static constexpr bool kWhole = static_cast<Sum>(0.5f) == 0;
  const KwMatmulResult& to;
  const int activation;
  float scale[kCount], bias[kCount];

  __device__ __forceinline__ MatmulColumns(const KwMatmulResult& to, i64 column, int activation = 0)
      : to(to), activation(activation) {
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) {
      scale[i] = 1.0f;
      bias[i] = 0.0f;
      if (column + i >= to.n) continue;
      if (to.weight_scale != nullptr) scale[i] = matmul_float(to.weight_scale, column + i);
      if (to.bias != nullptr) bias[i] = bias_at(column + i);
    }
  }

  __device__ __forceinline__ float bias_at(i64 column) const {
    if (to.bias_dtype == KW_MATMUL_FLOAT32) return matmul_float(to.bias, column);
    u32 word[1];
    load<2>(to.bias + column * 2, word);
    return to.bias_dtype == KW_MATMUL_FLOAT16 ? Float16::low(word[0]) : BFloat16::low(word[0]);
  }

  __device__ __forceinline__ float row_scale(i64 row) const {
    return to.x_scale == nullptr || row >= to.m ? 1.0f : matmul_float(to.x_scale, row);
  }

  __device__ __forceinline__ float value(Sum sum, float row_scale, u32 i) const {
    const float by = multiply_rounded(row_scale, scale[i]);
    return add_rounded(multiply_rounded(multiply_rounded(static_cast<float>(sum), by), to.factor), bias[i]);
  }

  // Sums of a row, from `column` on. What lies outside the result is left out.
  __device__ __forceinline__ void put(i64 row, i64 column, float row_scale, const Sum (&sum)[kCount]) const {
    if (row >= to.m || column >= to.n) return;
    float found[kCount];
    u32 word[kCount];
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) found[i] = value(sum[i], row_scale, i);
    if constexpr (!kWhole) activate(found, activation);
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) {
      word[i] = bits_of_float(found[i]);
      if (kWhole && to.dtype == KW_MATMUL_INT32) word[i] = static_cast<u32>(sum[i]);
      if (to.dtype == KW_MATMUL_FLOAT16) word[i] = Float16::pack(found[i], 0.0f);
      if (to.dtype == KW_MATMUL_BFLOAT16) word[i] = BFloat16::pack(found[i], 0.0f);
    }
    const bool wide = to.dtype == KW_MATMUL_INT32 || to.dtype == KW_MATMUL_FLOAT32;
    char* const at = to.y + row * to.y_pitch + column * (wide ? 4 : 2);
    if constexpr (kCount == 4) {
      if (to.vectors && wide) return store<16>(at, word);
      if (to.vectors) {
        const u32 pair[2] = {word[0] | word[1] << 16, word[2] | word[3] << 16};
        return store<8>(at, pair);
      }
    }
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) {
      const u32 one[1] = {word[i]};
      if (column + i >= to.n) return;
      if (wide) {
        store<4>(at + i * 4, one);
      } else {
        store<2>(at + i * 2, one);
      }
    }
  }
};

// 16 rows of 32 sums that a warp has brought to shared memory, as tensor cores leave them: a lane has of each eight
// columns two neighbours, of row lane / 4 and of the eighth row after it.
template <class Sum = int>
struct MatmulRoom {
  static constexpr u32 kPitch = KW_MATMUL_ROOM_BYTES / 16;
  u32 room;

  __device__ __forceinline__ void put(u32 part, u32 half, Sum first, Sum second) const {
    const u32 lane = threadIdx.x % 32, word[2] = {bits_of(first), bits_of(second)};
    store_shared<8>(room + (half * 8 + lane / 4) * kPitch + part * 32 + lane % 4 * 8, word);
  }

  __device__ __forceinline__ static u32 bits_of(Sum sum) {
    if constexpr (MatmulColumns<1, Sum>::kWhole) {
      return static_cast<u32>(sum);
    } else {
      return bits_of_float(sum);
    }
  }

  __device__ __forceinline__ static Sum sum_of(u32 bits) {
    if constexpr (MatmulColumns<1, Sum>::kWhole) {
      return static_cast<Sum>(bits);
    } else {
      return float_of_bits(bits);
    }
  }

  __device__ __forceinline__ void finish(const KwMatmulResult& to, i64 first_row, i64 first_column,
                                         int activation = 0) const {
    const u32 lane = threadIdx.x % 32;
    const i64 column = first_column + lane % 8 * 4;
    const MatmulColumns<4, Sum> columns(to, column, activation);
#pragma unroll 1
    for (u32 row = lane / 8; row < 16; row += 4) {
      u32 word[4];
      load_shared<16>(room + row * kPitch + lane % 8 * 16, word);
      Sum sum[4];
#pragma unroll
      for (u32 i = 0; i < 4; ++i) sum[i] = sum_of(word[i]);
      columns.put(first_row + row, column, columns.row_scale(first_row + row), sum);
    }
  }
};

}  // namespace kw
