// SPDX-License-Identifier: MIT
// Clusters and the overlap of one kernel with the next, one wrapper an instruction. Where the code's GPU has
// no overlap, its two calls do nothing.
#pragma once

#include "types.cuh"

namespace kw {

// Lets the next kernel's blocks be placed while this one still runs. They wait in wait_for_previous_kernel().
__device__ __forceinline__ void allow_next_kernel() {
#ifdef KW_HAS_PDL
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Returns once all that the kernels before this one wrote is visible. Every thread calls it before it touches
// memory or ends: a block that did not wait could end, and free the next kernel, before the previous one is done.
__device__ __forceinline__ void wait_for_previous_kernel() {
#ifdef KW_HAS_PDL
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

#ifdef KW_HAS_CLUSTER

__device__ __forceinline__ u32 shared_address(const void* shared) {
  u32 address;
  asm("{ .reg .u64 p; cvta.to.shared.u64 p, %1; cvt.u32.u64 %0, p; }" : "=r"(address) : "l"(shared));
  return address;
}

// Where block `rank` of the cluster has what this block has at `address`.
__device__ __forceinline__ u32 address_in_cluster(u32 address, u32 rank) {
  u32 there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}

// Relaxed: no data passes by this barrier, it only says that a block has begun.
__device__ __forceinline__ void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// Makes a barrier that one thread arrives at, here, and that `bytes` of store_async() complete.
__device__ __forceinline__ void barrier_expect(u64* barrier, u32 bytes) {
  const u32 address = shared_address(barrier);
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address), "r"(bytes) : "memory");
}

// Waits for the first phase of the barrier.
__device__ __forceinline__ void barrier_wait(u64* barrier) {
  u32 done;
  do {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(shared_address(barrier))
        : "memory");
  } while (done == 0);
}

// Writes a float into block `rank` of the cluster and counts it at that block's barrier. Unlike a store and a
// barrier of the cluster, it does not wait for this thread's stores to global memory.
__device__ __forceinline__ void store_async(float* to, u64* barrier, u32 rank, float value) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(
                   address_in_cluster(shared_address(to), rank)),
               "f"(value), "r"(address_in_cluster(shared_address(barrier), rank))
               : "memory");
}

#endif

}  // namespace kw
