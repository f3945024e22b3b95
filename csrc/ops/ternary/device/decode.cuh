// SPDX-License-Identifier: MIT
// Codes to signed bytes, in registers.
#pragma once

#include "device/types.cuh"
#include "ops/ternary/geometry.h"

namespace kw {

// The words of a left matrix: 32 of k from step * 32 on. A code is w + 1: adding 127 to it carries into no other byte.
__device__ __forceinline__ void ternary_decode(const u32 (&word)[4], u32 step, u32 (&left)[4]) {
#pragma unroll
  for (u32 i = 0; i < 4; ++i) left[i] = ((word[i] >> (step * 2) & 0x03030303u) + 0x7f7f7f7fu) ^ 0x80808080u;
}

}  // namespace kw
