// SPDX-License-Identifier: MIT
// A copy of ptx_async.cuh of four bytes.
#pragma once

#include "ptx_async.cuh"
#include "ptx_memory.cuh"
#include "types.cuh"

namespace kw {

// `bytes` of 4 or none, for which it is 0; then `from` is not read.
__device__ __forceinline__ void copy_async_word(u32 to, const char* from, u32 bytes) {
#ifdef KW_HAS_CP_ASYNC
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
#else
  u32 word[1] = {};
  if (bytes == 4) load<4>(from, word);
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(word[0]) : "memory");
#endif
}

}  // namespace kw
