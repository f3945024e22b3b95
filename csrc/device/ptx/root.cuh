// SPDX-License-Identifier: MIT
// The square root, one wrapper an instruction.
#pragma once

namespace kw {

// To 2^-23, of subnormal numbers too.
__device__ __forceinline__ float sqrt_approx(float value) {
  float result;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
}

}  // namespace kw
