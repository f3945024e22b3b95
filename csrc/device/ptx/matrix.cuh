// SPDX-License-Identifier: MIT
// Matrices that a warp's lanes hold together: one wrapper an instruction. A lane's group is lane / 4, its place in it
// lane % 4.
#pragma once

#include "device/types.cuh"

namespace kw {

// Four matrices of 8 rows of 16 bytes from shared memory; lane i says where row i % 8 of matrix i / 8 lies. A lane gets
// of each matrix the four bytes at 4 * place of its group's row.
__device__ __forceinline__ void load_matrices(u32 row, u32 (&word)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
               : "r"(row)
               : "memory");
}

// What the lane at `place` of the same group has.
__device__ __forceinline__ float shuffle_in_group(float value, u32 place) {
  float other;
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1c1f, 0xffffffff;" : "=f"(other) : "f"(value), "r"(place));
  return other;
}

#ifdef KW_HAS_BF16_MMA

// c += a * b of 16 x 16 and 16 x 8 elements. Of a the lane has, in pairs, columns 2 * place of the rows `group` and
// group + 8, then columns 2 * place + 8 of both; of b rows 2 * place and 2 * place + 8 of column `group`; of c columns
// 2 * place and the next of row `group`, then of row group + 8.
__device__ __forceinline__ void multiply_half(float (&c)[4], const u32 (&a)[4], u32 b_low, u32 b_high) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_low), "r"(b_high));
}

__device__ __forceinline__ void multiply_bfloat(float (&c)[4], const u32 (&a)[4], u32 b_low, u32 b_high) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_low), "r"(b_high));
}

#endif

#if defined(KW_HAS_INT8_MMA) && defined(KW_HAS_CP_ASYNC)  // 32 of k came with the copies

// c += a * b of 16 x 32 and 32 x 8 signed bytes. Of a the lane has bytes 4 * place to 4 * place + 3 of the rows `group`
// and group + 8, then bytes 16 further of both; of b bytes 4 * place and on, and 16 further, of column `group`; of c
// columns 2 * place and the next of row `group`, then of row group + 8.
__device__ __forceinline__ void multiply_int8(int (&c)[4], const u32 (&a)[4], u32 b_low, u32 b_high) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_low), "r"(b_high));
}

// The same of unsigned bytes on the left.
__device__ __forceinline__ void multiply_uint8(int (&c)[4], const u32 (&a)[4], u32 b_low, u32 b_high) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_low), "r"(b_high));
}

#endif

}  // namespace kw
