// SPDX-License-Identifier: MIT
// Copies of many bytes to shared memory and back by one thread (cp.async.bulk), one wrapper an instruction. What comes
// is counted at a barrier of mbarrier.cuh; what goes is in groups of the thread's, like the boxes of tma.cuh.
#pragma once

#include "device/ptx/mbarrier.cuh"
#include "device/ptx/sync.cuh"
#include "device/types.cuh"

namespace kw {

#ifdef KW_HAS_TMA

// Copies `bytes`, which are counted at the barrier. All are multiples of 16.
__device__ __forceinline__ void copy_bulk(u32 to, const char* from, u32 bytes, u32 barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

// True in one lane of a warp, all of which ask: what it alone does is not a loop over lanes then.
__device__ __forceinline__ bool one_lane() {
  u32 yes;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(yes) : : "memory");
  return yes != 0;
}

// Has L2 bring so many bytes, a multiple of 16.
__device__ __forceinline__ void prefetch_bulk(const char* from, u32 bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}

// So many bytes, a multiple of 16, from shared to global memory, both on 16 bytes.
__device__ __forceinline__ void bulk_store(void* to, u32 from, u32 bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
               : "memory");
}

// Floats, added to what is there.
__device__ __forceinline__ void bulk_reduce_add(float* to, u32 from, u32 bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to), "r"(from),
               "r"(bytes)
               : "memory");
}

// Ends a group of this thread's stores.
__device__ __forceinline__ void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Until of all but the last kLeft groups shared memory has been read: it may be written again, or the block end.
template <int kLeft>
__device__ __forceinline__ void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kLeft) : "memory");
}

// Until they are in global memory, too.
template <int kLeft>
__device__ __forceinline__ void bulk_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kLeft) : "memory");
}

#endif

}  // namespace kw
