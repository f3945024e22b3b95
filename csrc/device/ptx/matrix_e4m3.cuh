// SPDX-License-Identifier: MIT
// Products of 8-bit floats by a warp.
#pragma once

#include "device/types.cuh"

namespace kw {

#ifdef KW_HAS_FP8_MMA

// c += a * b of 16 x 32 and 32 x 8 numbers of e4m3, which lie as the bytes of multiply_int8 (matrix.cuh). Sums are
// float32, of which tensor cores do not keep every bit.
__device__ __forceinline__ void multiply_e4m3(float (&c)[4], const u32 (&a)[4], u32 b_low, u32 b_high) {
  asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_low), "r"(b_high));
}

#endif

}  // namespace kw
