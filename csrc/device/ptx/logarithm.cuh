// SPDX-License-Identifier: MIT
// Logarithms, one wrapper an instruction.
#pragma once

#include "device/types.cuh"

namespace kw {

// Of base 2: to 2^-22 of itself, or of 1 where it is smaller; minus infinity of 0.
__device__ __forceinline__ float log2_approx(float value) {
  float result;
  asm("lg2.approx.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
}

}  // namespace kw
