// SPDX-License-Identifier: MIT
// Loads and stores of shared memory by its 32-bit addresses, one wrapper an instruction. Each moves kBytes (16, 8, 4 or
// 2) to or from 32-bit words.
#pragma once

#include "device/types.cuh"

namespace kw {

__device__ __forceinline__ u32 shared_address(const void* shared) {
  u32 address;
  asm("{ .reg .u64 p; cvta.to.shared.u64 p, %1; cvt.u32.u64 %0, p; }" : "=r"(address) : "l"(shared));
  return address;
}

template <int kBytes>
__device__ __forceinline__ void load_shared(u32 from, u32* word) {
  static_assert(kBytes == 16 || kBytes == 8 || kBytes == 4 || kBytes == 2, "no such load");
  if constexpr (kBytes == 16) {
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                 : "r"(from)
                 : "memory");
  } else if constexpr (kBytes == 8) {
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(word[0]), "=r"(word[1]) : "r"(from) : "memory");
  } else if constexpr (kBytes == 4) {
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word[0]) : "r"(from) : "memory");
  } else {
    u16 half;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(half) : "r"(from) : "memory");
    word[0] = half;
  }
}

template <int kBytes>
__device__ __forceinline__ void store_shared(u32 to, const u32* word) {
  static_assert(kBytes == 16 || kBytes == 8 || kBytes == 4 || kBytes == 2, "no such store");
  if constexpr (kBytes == 16) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(word[0]), "r"(word[1]), "r"(word[2]),
                 "r"(word[3])
                 : "memory");
  } else if constexpr (kBytes == 8) {
    asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(to), "r"(word[0]), "r"(word[1]) : "memory");
  } else if constexpr (kBytes == 4) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(word[0]) : "memory");
  } else {
    asm volatile("st.shared.u16 [%0], %1;" ::"r"(to), "h"(static_cast<u16>(word[0])) : "memory");
  }
}

}  // namespace kw
