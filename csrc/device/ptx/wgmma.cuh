// SPDX-License-Identifier: MIT
// What products by a warpgroup (wgmma_*.cuh) have in common: smem descriptors, fence, commit, wait. Threads 128 i to
// 128 i + 127 are a warpgroup. Its warp i has rows 16 i to 16 i + 15 of the sums; there a lane has in registers 4 j to
// 4 j + 3 columns 8 j + lane % 4 * 2 and the next, of row lane / 4, then of row lane / 4 + 8.
#pragma once

#include "device/types.cuh"

namespace kw {

#ifdef KW_HAS_WGMMA

// How many bytes of a row lie together, 16 of them exchanged with others of the same eight rows so that no two rows of
// a product meet in a bank. As TMA writes them under the swizzle of the same name.
enum class Swizzle : u32 { kNone = 0, k128 = 1, k64 = 2, k32 = 3 };

// How a matrix lies, the upper half of a descriptor. `stride`: bytes from eight rows to the next eight (of k, where the
// matrix lies with k as its slower dimension).
constexpr __device__ __forceinline__ u64 smem_layout(Swizzle swizzle, u32 stride) {
  return u64{static_cast<u32>(swizzle)} << 62 | u64{stride >> 4} << 32;
}

// Where it begins, the lower half: an address of shared memory, a multiple of eight rows of the swizzle, or k further;
// one more here is 16 bytes further. `leading`: bytes from the columns of one swizzle to the next, which counts only
// without a swizzle or where k is the slower dimension.
constexpr __device__ __forceinline__ u32 smem_matrix(u32 address, u32 leading = 16) {
  return leading >> 4 << 16 | address >> 4;
}

__device__ __forceinline__ u64 smem_descriptor(u64 layout, u32 matrix) { return layout | matrix; }

// Before the first product, and again after other instructions wrote its registers.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Ends a group of products, which may be empty.
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Until at most the last kLeft groups are on their way. Compilers know of no registers here: wgmma_done() tells them.
template <int kLeft>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}

// After the wait for them: what is done with these sums stays behind it.
template <u32 kCount>
__device__ __forceinline__ void wgmma_done(float (&d)[kCount]) {
#pragma unroll
  for (u32 i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

template <u32 kCount>
__device__ __forceinline__ void wgmma_done(int (&d)[kCount]) {
#pragma unroll
  for (u32 i = 0; i < kCount; ++i) asm volatile("" : "+r"(d[i])::"memory");
}

#endif

}  // namespace kw
