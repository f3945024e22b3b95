// SPDX-License-Identifier: MIT
// The matrices of matrix.cuh, transposed on their way.
#pragma once

#include "device/types.cuh"

namespace kw {

// Four matrices of 8 rows of 16 bytes from shared memory; lane i says where row i % 8 of matrix i / 8 lies. A lane gets
// of each the two elements of 16 bits at column lane / 4 of rows lane % 4 * 2 and the next.
__device__ __forceinline__ void load_matrices_transposed(u32 row, u32 (&word)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
               : "r"(row)
               : "memory");
}

}  // namespace kw
