// SPDX-License-Identifier: MIT
// Products of matrices of 8-bit integers that a warp's lanes hold together, one wrapper an instruction; matrix.cuh says
// what a group and a place are.
#pragma once

#include "device/types.cuh"

namespace kw {

#ifdef KW_HAS_BF16_MMA  // with which those of 16 x 32 elements came; int8_mma says that there are some

// c += a * b of 16 x 32 and 32 x 8 bytes. Of a the lane has bytes 4 * place to 4 * place + 3 of rows `group` and
// group + 8, then bytes 16 further of both; of b the same bytes of column `group`; of c columns 2 * place and the next
// of row `group`, then of row group + 8.
__device__ __forceinline__ void multiply_s8(int (&c)[4], const u32 (&a)[4], u32 b_low, u32 b_high) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_low), "r"(b_high));
}

// The same of unsigned a.
__device__ __forceinline__ void multiply_u8(int (&c)[4], const u32 (&a)[4], u32 b_low, u32 b_high) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_low), "r"(b_high));
}

#endif

}  // namespace kw
