// SPDX-License-Identifier: MIT
// Where the warps of a cluster that walks over rows meet, once a row.
#pragma once

#include "ops/norm/device/common.cuh"

namespace kw {

#ifdef KW_HAS_CLUSTER

constexpr u32 kWalkParts = 2 * kWarp;  // of a row: as many as a cluster has warps, at most

// Used in turns by one row and the next: a warp can be a row ahead of another, never two.
template <class Part>
struct alignas(16) WalkScratch {
  Part part[2][kWalkParts];
  u64 barrier[2];
  float weight[kWarp], bias[kWarp];  // of the elements that are in no unit
};

__device__ __forceinline__ void send_part(float* to, u64* barrier, u32 rank, float part) {
  store_async(to, barrier, rank, part);
}

__device__ __forceinline__ void send_part(Moments* to, u64* barrier, u32 rank, const Moments& part) {
  const u32 words[] = {bits_of_float(part.count), bits_of_float(part.mean), bits_of_float(part.m2), 0};
  store_async(to, barrier, rank, words);
}

__device__ __forceinline__ float both(float a, float b) { return a + b; }

// `a` is of no elements only if `b` is.
__device__ __forceinline__ Moments both(const Moments& a, const Moments& b) {
  const float off = b.mean - a.mean, sum = b.count * off;
  return moments_of(a.count + b.count, a.mean, sum, fmaf(sum, off, a.m2 + b.m2));
}

// Where the warps of a cluster meet, without a barrier of the block: each tells all blocks what it knows of a row.
template <bool kCentered>
struct Meeting {
  using Part = typename Tally<kCentered>::Part;
  WalkScratch<Part>& scratch;
  u32 warp, warps, blocks;  // of the cluster; warps of all its blocks

  __device__ __forceinline__ void announce(u32 turn) const {
    if (threadIdx.x == 0) barrier_expect(&scratch.barrier[turn], warps * sizeof(Part));
  }

  // Every thread calls it first of all; cluster_wait() before the first row's statistics.
  __device__ __forceinline__ void begin() const {
    for (u32 i = threadIdx.x; i < kWalkParts; i += blockDim.x) {
      if (i >= warps) scratch.part[0][i] = {}, scratch.part[1][i] = {};
    }
    if (threadIdx.x == 0) {
      barrier_init(&scratch.barrier[0]);
      barrier_init(&scratch.barrier[1]);
    }
    announce(0);
    announce(1);
    __syncthreads();
    cluster_arrive();
  }

  __device__ __forceinline__ Statistics statistics(const Params& p, const Part& mine, u32 number) const {
    const u32 turn = number % 2, lane = threadIdx.x % kWarp;
    if (lane < blocks) send_part(&scratch.part[turn][warp], &scratch.barrier[turn], lane, mine);
    barrier_wait_shared(&scratch.barrier[turn], number / 2 % 2);
    announce(turn);
    Part part = scratch.part[turn][lane];
    if (warps > kWarp) part = both(part, scratch.part[turn][lane + kWarp]);
    return Tally<kCentered>::statistics(p, Tally<kCentered>::merge(part, kWarp));
  }
};

#endif

}  // namespace kw
