// SPDX-License-Identifier: MIT
// Products of four bytes with four bytes, one wrapper an instruction.
#pragma once

#include "device/types.cuh"

namespace kw {

// sum + a0 * b0 + a1 * b1 + a2 * b2 + a3 * b3 of signed bytes.
__device__ __forceinline__ int dot4(u32 a, u32 b, int sum) {
  int result;
  asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
  return result;
}

}  // namespace kw
