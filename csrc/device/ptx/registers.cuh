// SPDX-License-Identifier: MIT
// Registers from the warpgroups that copy to those that compute (setmaxnreg). All warps of a warpgroup do it, in a
// kernel with __launch_bounds__(threads, 1), each role in one branch.
#pragma once

#include "device/types.cuh"

namespace kw {

#ifdef KW_HAS_SETMAXNREG

// A thread keeps so many, a multiple of 8 from 24 on; the others go back to the block.
template <int kCount>
__device__ __forceinline__ void release_registers() {
  static_assert(kCount % 8 == 0 && kCount >= 24 && kCount <= 256, "no such number of registers");
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}

// A thread has so many; waits until the block has them.
template <int kCount>
__device__ __forceinline__ void take_registers() {
  static_assert(kCount % 8 == 0 && kCount >= 24 && kCount <= 256, "no such number of registers");
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

#endif

}  // namespace kw
