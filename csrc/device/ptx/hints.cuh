// SPDX-License-Identifier: MIT
// What changes no result, only when something is done: one wrapper an instruction, or none.
#pragma once

#include "device/types.cuh"

namespace kw {

// Has L2 bring what will be read soon.
__device__ __forceinline__ void prefetch(const void* from) { asm volatile("prefetch.global.L2 [%0];" ::"l"(from)); }

// Keeps the compiler from working out a number again for each of its uses.
__device__ __forceinline__ u32 computed_once(u32 value) {
  asm("" : "+r"(value));
  return value;
}

// What is the same in all lanes of a warp, so that the compiler knows it.
__device__ __forceinline__ u32 same_in_warp(u32 value) {
  u32 same;
  asm volatile("shfl.sync.idx.b32 %0, %1, 0, 0x1f, 0xffffffff;" : "=r"(same) : "r"(value));
  return same;
}

// An instruction that compilers neither leave out nor move past others like it.
__device__ __forceinline__ u32 exclusive_or(u32 a, u32 b) {
  u32 result;
  asm volatile("xor.b32 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}

// And from working out before a loop what is wanted after it, where registers are dearer.
__device__ __forceinline__ u32 computed_here(u32 value) {
  asm volatile("" : "+r"(value));
  return value;
}

// The same of an address: worked out here, not behind the waits that follow.
__device__ __forceinline__ const char* computed_here(const char* value) {
  asm volatile("" : "+l"(value));
  return value;
}

}  // namespace kw
