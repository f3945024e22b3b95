// SPDX-License-Identifier: MIT
// Copies of 16 bytes or 4 from global to shared memory that go on while the thread works (cp.async), and the reading of
// what they brought. Where the code's GPU has none, the thread copies.
#pragma once

#include "device/ptx/memory.cuh"
#include "device/ptx/sync.cuh"

namespace kw {

__device__ __forceinline__ void load_shared(u32 from, u32* word) {
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
               : "r"(from)
               : "memory");
}

__device__ __forceinline__ void store_shared(u32 to, const u32* word) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(word[0]), "r"(word[1]), "r"(word[2]),
               "r"(word[3])
               : "memory");
}

// `bytes` of 16, zeros for the others; where they are none, `from` is not read.
__device__ __forceinline__ void copy_async(u32 to, const char* from, u32 bytes) {
#ifdef KW_HAS_CP_ASYNC
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
#else
  u32 word[4] = {};
#pragma unroll
  for (u32 i = 0; i < 16; i += 2) {
    if (bytes == 16 || i >= bytes) continue;
    u32 half[1];
    load<2>(from + i, half);
    word[i / 4] |= half[0] << (i % 4 * 8);
  }
  if (bytes == 16) load<16>(from, word);
  store_shared(to, word);
#endif
}

// Of 4 bytes.
__device__ __forceinline__ void copy_word_async(u32 to, const char* from) {
#ifdef KW_HAS_CP_ASYNC
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
#else
  u32 word[1];
  load<4>(from, word);
  store_shared<4>(to, word);
#endif
}

// Ends a group of this thread's copies, which may be empty.
__device__ __forceinline__ void copies_commit() {
#ifdef KW_HAS_CP_ASYNC
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Until at most the last kLeft groups are still on their way. What came is for this thread's eyes only.
template <int kLeft>
__device__ __forceinline__ void copies_wait() {
#ifdef KW_HAS_CP_ASYNC
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
#endif
}

}  // namespace kw
