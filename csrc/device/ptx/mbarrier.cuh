// SPDX-License-Identifier: MIT
// Barriers in shared memory at which threads arrive and the bytes of copies are counted (mbarrier), one wrapper an
// instruction. `barrier` is an address of shared memory, a multiple of 8.
#pragma once

#include "device/types.cuh"

namespace kw {

#ifdef KW_HAS_CLUSTER

// A barrier of so many arrivals a phase.
__device__ __forceinline__ void barrier_init(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// What was initialised is seen by the whole cluster and by copies.
__device__ __forceinline__ void barriers_are_there() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// What this thread has done before is done for those that wait for the phase to end.
__device__ __forceinline__ void barrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// The same at a barrier of another block, whose address address_in_cluster() gave: for what this thread and its
// products have read, after which TMA may write there again. For what it wrote it would have to be a release to the
// whole cluster, which waits for its stores to global memory, too.
__device__ __forceinline__ void barrier_arrive_cluster(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// One arrival, of a phase that ends when `bytes` more have been written.
__device__ __forceinline__ void barrier_expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Waits for the end of the phase of this parity; the first is 0. For what was written into this block's shared memory
// alone: unlike an acquire from the whole cluster it does not throw away what L1 has of global memory.
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

#endif

}  // namespace kw
