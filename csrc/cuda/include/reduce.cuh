// SPDX-License-Identifier: MIT
// Sums over threads: groups of a warp, a block, a cluster. The order of the additions is fixed, so results repeat.
#pragma once

#include "ptx_sync.cuh"
#include "types.cuh"

namespace kw {

constexpr u32 kWarp = 32;
constexpr u32 kMaxWarps = 32;    // of a block
constexpr u32 kMaxCluster = 16;  // blocks

// Shared memory of a sum over a block or cluster.
struct alignas(16) SumScratch {
  float warp[kMaxWarps];
  float block[kMaxCluster];
  u64 barrier;
};

__device__ __forceinline__ float shuffle_xor(float value, u32 mask) {
  float other;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(other) : "f"(value), "r"(mask));
  return other;
}

// Over the whole warp; every lane gets the sum.
__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (u32 mask = kWarp / 2; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
  return value;
}

// Over a block of whole warps, of which `value` is one's sum; every thread gets the block's. One use of `scratch` a
// launch: the barrier that would let it be used again is left out.
__device__ __forceinline__ float block_sum(float value, SumScratch& scratch) {
  const u32 warps = blockDim.x / kWarp;
  if (warps == 1) return value;
  if (threadIdx.x % kWarp == 0) scratch.warp[threadIdx.x / kWarp] = value;
  if (threadIdx.x < kMaxWarps && threadIdx.x >= warps) scratch.warp[threadIdx.x] = 0.0f;
  __syncthreads();
  const u32 quads = warps <= 4 ? 1 : warps <= 8 ? 2 : warps <= 16 ? 4 : 8;
  const float4 quad = reinterpret_cast<const float4*>(scratch.warp)[threadIdx.x & (quads - 1)];
  value = (quad.x + quad.y) + (quad.z + quad.w);
#pragma unroll
  for (u32 mask = 1; mask < kMaxWarps / 4; mask *= 2) {
    if (mask < quads) value += shuffle_xor(value, mask);
  }
  return value;
}

#ifdef KW_HAS_CLUSTER

// Every thread of a cluster calls this first of all. Until cluster_sum() has waited for it, the other blocks may
// not have begun, and their shared memory is nobody's.
__device__ __forceinline__ void cluster_sum_begin(u32 blocks, SumScratch& scratch) {
  if (threadIdx.x == 0) {
    barrier_init(&scratch.barrier);
    barrier_expect(&scratch.barrier, blocks * sizeof(float));
  }
  cluster_arrive();
}

// Over a cluster, of which `value` is one block's sum; every thread gets the cluster's. A block leaves only after
// all that is written into it has arrived.
__device__ __forceinline__ float cluster_sum(float value, u32 rank, u32 blocks, SumScratch& scratch) {
  cluster_wait();
  if (threadIdx.x < blocks) store_async(&scratch.block[rank], &scratch.barrier, threadIdx.x, value);
  barrier_wait(&scratch.barrier, 0);
  float sum = 0.0f;
  for (u32 i = 0; i < blocks; ++i) sum += scratch.block[i];
  return sum;
}

#endif

}  // namespace kw
