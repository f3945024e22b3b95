// SPDX-License-Identifier: MIT
// Barriers (mbarrier) that other blocks of the cluster arrive at.
#pragma once

#include "types.cuh"

namespace kw {

#ifdef KW_HAS_TMA

// Arrives at a barrier of another block, whose address address_in_cluster() gave. What this thread has done before is
// done for those that barrier_wait_cluster() there.
__device__ __forceinline__ void barrier_arrive_cluster(u32 barrier) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Waits for the end of the phase of this parity, at a barrier of this block where threads of others arrive.
__device__ __forceinline__ void barrier_wait_cluster(u32 barrier, u32 parity) {
  u32 done;
  do {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  } while (done == 0);
}

#endif

}  // namespace kw
