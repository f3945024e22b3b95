// SPDX-License-Identifier: MIT
// Matrices from a warp's registers to shared memory (stmatrix): the way back of ldmatrix. They came with TMA.
#pragma once

#include "device/types.cuh"

namespace kw {

#ifdef KW_HAS_TMA

// Four matrices of 8 rows of 16 bytes; lane i says where row i % 8 of matrix i / 8 lies. A lane has of each matrix the
// four bytes at 4 * (lane % 4) of row lane / 4. What TMA or wgmma read of it needs fence_proxy_async().
__device__ __forceinline__ void store_matrices(u32 row, const u32 (&word)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(word[0]),
               "r"(word[1]), "r"(word[2]), "r"(word[3])
               : "memory");
}

// Transposed: a lane has of each matrix the two elements of 16 bits at column lane / 4 of rows lane % 4 * 2 and the
// next.
__device__ __forceinline__ void store_matrices_transposed(u32 row, const u32 (&word)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(word[0]),
               "r"(word[1]), "r"(word[2]), "r"(word[3])
               : "memory");
}

#endif

}  // namespace kw
