// SPDX-License-Identifier: MIT
// Copies of many bytes to shared memory by one thread (cp.async.bulk), and the barriers that those who write and those
// who read meet at, one wrapper an instruction.
#pragma once

#include "device/ptx/sync.cuh"
#include "device/types.cuh"

namespace kw {

#ifdef KW_HAS_TMA

// A barrier of so many arrivals a phase, at an address of shared memory.
__device__ __forceinline__ void barrier_init(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// What was initialised is seen by the whole cluster and by copies.
__device__ __forceinline__ void barriers_are_there() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void barrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// One arrival, of a phase that ends when `bytes` more have been written.
__device__ __forceinline__ void barrier_expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Waits for the end of the phase of this parity; the first is 0.
__device__ __forceinline__ void barrier_wait(u32 barrier, u32 parity) {
  u32 done;
  do {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  } while (done == 0);
}

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

// Copies a box of the matrix that the driver described, whose first column and row these are; its bytes are counted at
// the barrier. `to` is on 128 bytes.
__device__ __forceinline__ void copy_box(u32 to, const void* map, u32 column, u32 row, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          to),
      "l"(map), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}

// Has L2 bring it.
__device__ __forceinline__ void prefetch_box(const void* map, u32 column, u32 row) {
  asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global [%0, {%1, %2}];" ::"l"(map), "r"(column), "r"(row)
               : "memory");
}

// Has L2 bring so many bytes, a multiple of 16.
__device__ __forceinline__ void prefetch_bulk(const char* from, u32 bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}

#endif

}  // namespace kw
