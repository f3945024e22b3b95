// SPDX-License-Identifier: MIT
// Products of a warp's 16 rows by mma.sync, of rows in shared memory as rows.cuh leaves them.
#pragma once

#include "device/element.cuh"
#include "device/ptx/matrix.cuh"
#include "device/ptx/matrix_transposed.cuh"
#include "ops/attention/device/rows.cuh"

namespace kw {

#ifdef KW_HAS_BF16_MMA

template <class T>
__device__ __forceinline__ void multiply_add(float (&c)[4], const u32 (&a)[4], u32 low, u32 high) {
  if constexpr (T::kIsHalf) {
    multiply_half(c, a, low, high);
  } else {
    multiply_bfloat(c, a, low, high);
  }
}

// 16 rows of `left`, from `row` on, times each of the rows of `right`, of d elements: kCount / 4 times 8 columns.
template <class T, u32 kChunks, u32 kCount>
__device__ __forceinline__ void rows_by_rows(float (&s)[kCount], u32 left, u32 row, u32 right, int d) {
  const u32 lane = threadIdx.x % 32;
#pragma unroll
  for (u32 i = 0; i < kCount; ++i) s[i] = 0.0f;
#pragma unroll
  for (u32 k = 0; k < kChunks / 2; ++k) {
    if (static_cast<int>(k * 16) >= d) break;
    u32 a[4];
    load_matrices(chunk_at<kChunks>(left, row + lane % 16, k * 2 + lane / 16), a);
#pragma unroll
    for (u32 n = 0; n < kCount / 4; n += 2) {
      u32 b[4];
      load_matrices(chunk_at<kChunks>(right, n * 8 + lane / 16 * 8 + lane % 8, k * 2 + lane / 8 % 2), b);
      multiply_add<T>(reinterpret_cast<float (&)[4]>(s[n * 4]), a, b[0], b[1]);
      multiply_add<T>(reinterpret_cast<float (&)[4]>(s[n * 4 + 4]), a, b[2], b[3]);
    }
  }
}

// Adds to o what is in registers, 16 rows of as many columns as `right` has rows, times those rows, of d elements.
template <class T, u32 kChunks, u32 kCount>
__device__ __forceinline__ void add_by_rows(float (&o)[kChunks * 4], const float (&s)[kCount], u32 right, int d) {
  const u32 lane = threadIdx.x % 32;
#pragma unroll
  for (u32 k = 0; k < kCount / 8; ++k) {
    u32 a[4];
#pragma unroll
    for (u32 i = 0; i < 4; ++i) a[i] = T::pack(s[k * 8 + i * 2], s[k * 8 + i * 2 + 1]);
#pragma unroll
    for (u32 n = 0; n < kChunks; n += 2) {
      if (static_cast<int>(n * 8) >= d) break;
      u32 b[4];
      load_matrices_transposed(chunk_at<kChunks>(right, k * 16 + lane % 16, n + lane / 16), b);
      multiply_add<T>(reinterpret_cast<float (&)[4]>(o[n * 4]), a, b[0], b[1]);
      multiply_add<T>(reinterpret_cast<float (&)[4]>(o[n * 4 + 4]), a, b[2], b[3]);
    }
  }
}

// The 16 rows in registers, times a number, to memory by way of a warp's own rows of shared memory.
template <class T, u32 kChunks>
__device__ __forceinline__ void put_rows(const float (&o)[kChunks * 4], float by, u32 room, char* to, i64 pitch,
                                         int rows, int d, bool vectors) {
  const u32 lane = threadIdx.x % 32;
#pragma unroll
  for (u32 i = 0; i < kChunks * 2; ++i) {
    const u32 n = i / 2, half = i % 2;
    const u32 pair[1] = {T::pack(o[n * 4 + half * 2] * by, o[n * 4 + half * 2 + 1] * by)};
    store_shared<4>(chunk_at<kChunks>(room, lane / 4 + half * 8, n) + lane % 4 * 4, pair);
  }
  store_rows<T, kChunks>(room, to, pitch, rows, d, vectors);
}

#endif

}  // namespace kw
