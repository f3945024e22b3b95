// SPDX-License-Identifier: MIT
// Barriers, clusters and the overlap of one kernel with the next, one wrapper an instruction. Where the code's GPU has
// no overlap, its two calls do nothing.
#pragma once

#include "device/ptx/shared.cuh"
#include "device/types.cuh"

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

// The barrier `id` of `threads` threads of a block, whole warps; 0 is __syncthreads()'s.
__device__ __forceinline__ void barrier_of(u32 id, u32 threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

#ifdef KW_HAS_CLUSTER

// A barrier in shared memory that store_async() counts its bytes at (mbarrier). To be seen by the other blocks of the
// cluster before they use it.
__device__ __forceinline__ void barrier_init(u64* barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// The same of a barrier at which threads of this block arrive, so many in a phase.
__device__ __forceinline__ void barrier_init(u64* barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// What this thread has done before is done for those that wait for the phase to end.
__device__ __forceinline__ void barrier_arrive(u64* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// The one arrival of a phase, which ends when `bytes` more have been written.
__device__ __forceinline__ void barrier_expect(u64* barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}

// Waits for the end of the phase of this parity; the first is 0. For what others wrote into this block's shared memory
// alone: unlike an acquire from the whole cluster it does not throw away what L1 has of global memory.
__device__ __forceinline__ void barrier_wait_shared(u64* barrier, u32 parity) {
  u32 done;
  do {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
  } while (done == 0);
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

// What the block has done with its memory is done.
__device__ __forceinline__ void cluster_arrive_after_all() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// Writes a float into block `rank` of the cluster and counts it at that block's barrier. Unlike a store and a
// barrier of the cluster, it does not wait for this thread's stores to global memory.
__device__ __forceinline__ void store_async(float* to, u64* barrier, u32 rank, float value) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(
                   address_in_cluster(shared_address(to), rank)),
               "f"(value), "r"(address_in_cluster(shared_address(barrier), rank))
               : "memory");
}

// The same with 16 bytes.
__device__ __forceinline__ void store_async(void* to, u64* barrier, u32 rank, const u32 (&word)[4]) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.u32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
                   address_in_cluster(shared_address(to), rank)),
               "r"(word[0]), "r"(word[1]), "r"(word[2]), "r"(word[3]),
               "r"(address_in_cluster(shared_address(barrier), rank))
               : "memory");
}

// The same where both are addresses of shared memory.
__device__ __forceinline__ void store_async(u32 to, u32 barrier, u32 rank, const u32 (&word)[4]) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.u32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
                   address_in_cluster(to, rank)),
               "r"(word[0]), "r"(word[1]), "r"(word[2]), "r"(word[3]), "r"(address_in_cluster(barrier, rank))
               : "memory");
}

#endif

}  // namespace kw
