// SPDX-License-Identifier: MIT
// Numbers of 64 bits, one wrapper an instruction.
#pragma once

#define KW_DEVICE_DOUBLE  // for headers that host code reads too

namespace kw {

// A product that compilers do not make one operation of with a sum, which would round once.
__device__ __forceinline__ double multiply_rounded(double a, double b) {
  double product;
  asm("mul.rn.f64 %0, %1, %2;" : "=d"(product) : "d"(a), "d"(b));
  return product;
}

__device__ __forceinline__ double double_of_words(unsigned low, unsigned high) {
  double value;
  asm("mov.b64 %0, {%1, %2};" : "=d"(value) : "r"(low), "r"(high));
  return value;
}

}  // namespace kw
