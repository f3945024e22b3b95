// SPDX-License-Identifier: MIT
// Loads and stores of global memory, one wrapper an instruction. Each moves kBytes (16, 8, 4, 2 or 1)
// to or from 32-bit words.
#pragma once

#include "device/types.cuh"

namespace kw {

// Coherent (no .nc), because an operator may write where it read; and with a line of L1 even for data read once:
// L1::no_allocate made a copy on an H200 2.5 % slower.
template <int kBytes>
__device__ __forceinline__ void load(const void* from, u32* word) {
  static_assert(kBytes == 16 || kBytes == 8 || kBytes == 4 || kBytes == 2 || kBytes == 1, "no such load");
  if constexpr (kBytes == 16) {
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                 : "l"(from));
  } else if constexpr (kBytes == 8) {
    asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(word[0]), "=r"(word[1]) : "l"(from));
  } else if constexpr (kBytes == 4) {
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(word[0]) : "l"(from));
  } else if constexpr (kBytes == 1) {
    asm volatile("ld.global.u8 %0, [%1];" : "=r"(word[0]) : "l"(from));
  } else {
    u16 half;
    asm volatile("ld.global.u16 %0, [%1];" : "=h"(half) : "l"(from));
    word[0] = half;
  }
}

// Data that nobody on this multiprocessor reads again, whole sectors of it: L1 is left to what is. (Where two loads
// share a sector's neighbourhood L1 has to have it: 15 % slower without, on an H200.)
__device__ __forceinline__ void load_once(const void* from, u32* word) {
#ifdef KW_HAS_CP_ASYNC
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
               : "l"(from));
#else
  load<16>(from, word);
#endif
}

// Data that this block reads again: to be kept in both caches. The L2 policies came with cp.async.
__device__ __forceinline__ void load_to_keep(const void* from, u32* word) {
#ifdef KW_HAS_CP_ASYNC
  asm volatile(
      "{ .reg .b64 policy; createpolicy.fractional.L2::evict_last.b64 policy, 1.0;"
      " ld.global.L1::evict_last.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], policy; }"
      : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
      : "l"(from));
#else
  load<16>(from, word);
#endif
}

// The second reading: the caches may let it go.
__device__ __forceinline__ void load_kept(const void* from, u32* word) {
#ifdef KW_HAS_CP_ASYNC
  asm volatile(
      "{ .reg .b64 policy; createpolicy.fractional.L2::evict_first.b64 policy, 1.0;"
      " ld.global.L1::evict_first.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], policy; }"
      : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
      : "l"(from));
#else
  load<16>(from, word);
#endif
}

// How long L2 is to keep what a load brings: longest, or as usual.
__device__ __forceinline__ u64 l2_policy(bool longest) {
  u64 policy = 0;
#ifdef KW_HAS_CP_ASYNC
  u64 usual;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(usual));
  if (!longest) policy = usual;
#endif
  return policy;
}

__device__ __forceinline__ void load_vector(const void* from, u32* word, u64 policy) {
#ifdef KW_HAS_CP_ASYNC
  asm volatile("ld.global.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
               : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
               : "l"(from), "l"(policy));
#else
  load<16>(from, word);
#endif
}

// As L2 has it: of what another kernel wrote while this one was already there, L1 may have something older.
__device__ __forceinline__ void load_from_l2(const void* from, u32* word) {
  asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
               : "l"(from));
}

// Written lines leave L2 first (.cs): 3 % more bandwidth on an H200.
template <int kBytes>
__device__ __forceinline__ void store(void* to, const u32* word) {
  static_assert(kBytes == 16 || kBytes == 8 || kBytes == 4 || kBytes == 2 || kBytes == 1, "no such store");
  if constexpr (kBytes == 16) {
    asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(word[0]), "r"(word[1]), "r"(word[2]),
                 "r"(word[3])
                 : "memory");
  } else if constexpr (kBytes == 8) {
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(to), "r"(word[0]), "r"(word[1]) : "memory");
  } else if constexpr (kBytes == 4) {
    asm volatile("st.global.u32 [%0], %1;" ::"l"(to), "r"(word[0]) : "memory");
  } else if constexpr (kBytes == 1) {
    asm volatile("st.global.u8 [%0], %1;" ::"l"(to), "r"(word[0]) : "memory");
  } else {
    asm volatile("st.global.u16 [%0], %1;" ::"l"(to), "h"(static_cast<u16>(word[0])) : "memory");
  }
}

// Adds to a float32 in memory, where L2 has it, and does not wait for that.
__device__ __forceinline__ void add_float(void* to, float value) {
  asm volatile("red.global.add.f32 [%0], %1;" ::"l"(to), "f"(value) : "memory");
}

// What the next kernel reads: L2 keeps it like anything else.
__device__ __forceinline__ void store_to_read(void* to, const u32* word) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(word[0]), "r"(word[1]), "r"(word[2]),
               "r"(word[3])
               : "memory");
}

// Keeps the compiler from working out an address again for each of its uses.
template <class P>
__device__ __forceinline__ P* computed_once(P* pointer) {
  asm("" : "+l"(pointer));
  return pointer;
}

// The opposite: what is made of the words is not kept from where it was made of them before.
template <int kWords>
__device__ __forceinline__ void compute_anew(u32 (&word)[kWords]) {
#pragma unroll
  for (int i = 0; i < kWords; ++i) asm volatile("" : "+r"(word[i]));
}

}  // namespace kw
