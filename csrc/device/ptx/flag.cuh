// SPDX-License-Identifier: MIT
// Words of global memory by which blocks tell each other that something is there, one wrapper an instruction.
#pragma once

#include "device/types.cuh"

namespace kw {

// Who reads this with load_flag() sees what this thread wrote, or had seen, before.
__device__ __forceinline__ void store_flag(u32* to, u32 value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}

__device__ __forceinline__ u32 load_flag(const u32* from) {
  u32 value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}

}  // namespace kw
