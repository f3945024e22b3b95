// SPDX-License-Identifier: MIT
// Rows of a head in shared memory: 16-byte chunks of a row are exchanged by its number, so that eight rows' chunks of
// one column meet in no bank.
#pragma once

#include "device/ptx/async.cuh"
#include "device/ptx/memory.cuh"
#include "device/ptx/shared.cuh"

namespace kw {

__device__ __forceinline__ char* attention_shared() {
  extern __shared__ __align__(128) char room[];
  return room;
}

// kChunks: of a row, a multiple of 8.
template <u32 kChunks>
__device__ __forceinline__ u32 chunk_at(u32 base, u32 row, u32 chunk) {
  return base + (row * kChunks + (chunk ^ (row & 7))) * 16;
}

// Eight elements of which the first `count` are there, the others zeros; they may lie anywhere.
__device__ __forceinline__ void copy_elements(u32 to, const char* from, int count) {
#pragma unroll 1
  for (int i = 0; i < 8; ++i) {
    u32 half[1] = {0};
    if (i < count) load<2>(from + i * 2, half);
    store_shared<2>(to + i * 2, half);
  }
}

// kRows rows from the first one on, of which `rows` are there, of d elements each; the others are zeros.
template <u32 kRows, u32 kChunks, u32 kThreads>
__device__ __forceinline__ void copy_rows(u32 base, const char* from, i64 pitch, int rows, int d, bool vectors) {
  if (vectors) {
#pragma unroll 4
    for (u32 i = threadIdx.x; i < kRows * kChunks; i += kThreads) {
      const u32 row = i / kChunks, chunk = i % kChunks;
      const bool there = static_cast<int>(row) < rows && static_cast<int>(chunk * 8) < d;
      copy_async(chunk_at<kChunks>(base, row, chunk), there ? from + row * pitch + chunk * 16 : from, there ? 16 : 0);
    }
  } else {
#pragma unroll 1
    for (u32 i = threadIdx.x; i < kRows * kChunks; i += kThreads) {
      const u32 row = i / kChunks, chunk = i % kChunks;
      const int count = static_cast<int>(row) < rows ? d - static_cast<int>(chunk * 8) : 0;
      copy_elements(chunk_at<kChunks>(base, row, chunk), from + row * pitch + chunk * 16, count);
    }
  }
}

// The way back: 16 rows of a warp, which have been written to shared memory as above.
template <class T, u32 kChunks>
__device__ __forceinline__ void store_rows(u32 base, char* to, i64 pitch, int rows, int d, bool vectors) {
  __syncwarp();
#pragma unroll 1
  for (u32 i = threadIdx.x % 32; i < 16 * kChunks; i += 32) {
    const u32 row = i / kChunks, chunk = i % kChunks;
    const int count = static_cast<int>(row) < rows ? d - static_cast<int>(chunk * 8) : 0;
    if (count <= 0) continue;
    const u32 from = chunk_at<kChunks>(base, row, chunk);
    char* const at = to + row * pitch + chunk * 16;
    u32 word[4];
    if (vectors) {
      load_shared(from, word);
      store<16>(at, word);
      continue;
    }
#pragma unroll 1
    for (int j = 0; j < 8 && j < count; ++j) {
      load_shared<2>(from + j * 2, word);
      store<2>(at + j * 2, word);
    }
  }
  __syncwarp();
}

}  // namespace kw
