// SPDX-License-Identifier: MIT
// Sums and moments over threads: groups of a warp, a block, a cluster. The order of the additions is fixed, so results
// repeat.
#pragma once

#include "device/ptx/math.cuh"
#include "device/ptx/sync.cuh"
#include "device/types.cuh"

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

// What is known of some elements; m2 is the sum of their squared deviations from their own mean.
struct alignas(16) Moments {
  float count;
  float mean;
  float m2;
};

// From the sums of the distances from `origin` and of their squares; `origin` is not far off.
__device__ __forceinline__ Moments moments_of(float count, float origin, float sum, float squares) {
  const float off = sum * reciprocal_approx(count > 1.0f ? count : 1.0f), m2 = fmaf(-off, sum, squares);
  return {count, origin + off, m2 > 0.0f ? m2 : 0.0f};
}

// Shared memory of the moments of a block or cluster.
struct MomentsScratch {
  Moments warp[kMaxWarps];
  Moments block[kMaxCluster];
  u64 barrier;
};

__device__ __forceinline__ float shuffle_xor(float value, u32 mask) {
  float other;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(other) : "f"(value), "r"(mask));
  return other;
}

__device__ __forceinline__ float shuffle_from(float value, u32 lane) {
  float other;
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(other) : "f"(value), "r"(lane));
  return other;
}

// What the lane before this one has.
__device__ __forceinline__ u32 shuffle_up(u32 value) {
  u32 other;
  asm volatile("shfl.sync.up.b32 %0, %1, 1, 0x0, 0xffffffff;" : "=r"(other) : "r"(value));
  return other;
}

// What the lane after this one has.
__device__ __forceinline__ u32 shuffle_down(u32 value) {
  u32 other;
  asm volatile("shfl.sync.down.b32 %0, %1, 1, 0x1f, 0xffffffff;" : "=r"(other) : "r"(value));
  return other;
}

// Whether it is so in any lane. Compilers know that all of a warp go the same way by it.
__device__ __forceinline__ bool any_of_warp(bool so) {
  u32 any;
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; vote.sync.any.pred p, p, 0xffffffff; selp.u32 %0, 1, 0, p; }"
               : "=r"(any)
               : "r"(static_cast<u32>(so)));
  return any != 0;
}

// Over the whole warp; every lane gets the sum.
__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (u32 mask = kWarp / 2; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
  return value;
}

// Over `lanes` lanes side by side, a power of two; each of them gets the sum.
__device__ __forceinline__ float lanes_sum(float value, u32 lanes) {
  for (u32 mask = lanes / 2; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
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

// Of the elements of `lanes` lanes side by side, a power of two; each of them gets the moments of all. Distances are
// taken from the first one's mean, so the result is as exact where all numbers are much larger than their deviations.
__device__ __forceinline__ Moments lanes_moments(const Moments& mine, u32 lanes) {
  const float origin = shuffle_from(mine.mean, threadIdx.x % kWarp & ~(lanes - 1)), off = mine.mean - origin;
  float count = mine.count, sum = mine.count * off, squares = fmaf(sum, off, mine.m2);
#pragma unroll
  for (u32 mask = kWarp / 2; mask > 0; mask /= 2) {
    if (mask >= lanes) continue;
    count += shuffle_xor(count, mask);
    sum += shuffle_xor(sum, mask);
    squares += shuffle_xor(squares, mask);
  }
  return moments_of(count, origin, sum, squares);
}

// block_sum() of moments.
__device__ __forceinline__ Moments block_moments(const Moments& warp, MomentsScratch& scratch) {
  const u32 warps = blockDim.x / kWarp;
  if (warps == 1) return warp;
  if (threadIdx.x % kWarp == 0) scratch.warp[threadIdx.x / kWarp] = warp;
  if (threadIdx.x < kMaxWarps && threadIdx.x >= warps) scratch.warp[threadIdx.x] = {0.0f, 0.0f, 0.0f};
  __syncthreads();
  const u32 lanes = warps <= 4 ? 4 : warps <= 8 ? 8 : warps <= 16 ? 16 : 32;
  return lanes_moments(scratch.warp[threadIdx.x & (lanes - 1)], lanes);
}

#ifdef KW_HAS_CLUSTER

// Every thread of a cluster calls this first of all. Until cluster_sum() or cluster_moments() has waited for it, the
// other blocks may not have begun, and their shared memory is nobody's.
template <class Scratch>
__device__ __forceinline__ void cluster_begin(u32 blocks, Scratch& scratch) {
  if (threadIdx.x == 0) {
    barrier_init(&scratch.barrier);
    barrier_expect(&scratch.barrier, blocks * sizeof(scratch.block[0]));
  }
  cluster_arrive();
}

// Over a cluster, of which `value` is one block's sum; every thread gets the cluster's. A block leaves only after
// all that is written into it has arrived.
__device__ __forceinline__ float cluster_sum(float value, u32 rank, u32 blocks, SumScratch& scratch) {
  cluster_wait();
  if (threadIdx.x < blocks) store_async(&scratch.block[rank], &scratch.barrier, threadIdx.x, value);
  barrier_wait_shared(&scratch.barrier, 0);
  float sum = 0.0f;
  for (u32 i = 0; i < blocks; ++i) sum += scratch.block[i];
  return sum;
}

// cluster_sum() of moments; `blocks` is a power of two.
__device__ __forceinline__ Moments cluster_moments(const Moments& block, u32 rank, u32 blocks,
                                                   MomentsScratch& scratch) {
  cluster_wait();
  if (threadIdx.x < blocks) {
    const u32 words[] = {bits_of_float(block.count), bits_of_float(block.mean), bits_of_float(block.m2), 0};
    store_async(&scratch.block[rank], &scratch.barrier, threadIdx.x, words);
  }
  barrier_wait_shared(&scratch.barrier, 0);
  return lanes_moments(scratch.block[threadIdx.x & (blocks - 1)], blocks);
}

#endif

}  // namespace kw
