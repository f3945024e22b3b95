// SPDX-License-Identifier: MIT
// y = activation(x * weight^T + bias) by warpgroups: one copies boxes of x and of the weight to stages of shared
// memory, two take tiles in turn, so that one multiplies while the other brings its sums to memory. Two blocks of a
// cluster have the same columns: each copies half of the weight's rows to both.
//
// Gated, half of a tile's rows of the weight are of the gate and half, for the same columns of y, of what it is
// multiplied with; these come p.n rows later in the weight.
#pragma once

#include "device/epilogue.cuh"
#include "device/pipeline.cuh"
#include "device/ptx/bulk.cuh"
#include "device/ptx/hints.cuh"
#include "device/ptx/registers.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/ptx/wgmma_bf16_shared.cuh"
#include "device/ptx/wgmma_f16_shared.cuh"
#include "device/ptx/wgmma_wait.cuh"
#include "device/scheduler.cuh"
#include "ops/linear/params.h"

#ifdef KW_HAS_WGMMA

namespace kw {

__device__ __forceinline__ char* linear_shared() {
  extern __shared__ __align__(128) char room[];
  return room;
}

template <class T, u32 kCluster, bool kGated>
struct Linear {
  static constexpr u32 kRows = KW_LINEAR_ROWS, kColumns = KW_LINEAR_COLUMNS, kDepth = KW_LINEAR_DEPTH;
  static constexpr u32 kWarps = 8, kStages = KW_LINEAR_STAGES;  // those that multiply
  static constexpr u32 kLeftBytes = kRows * kDepth * 2, kStageBytes = KW_LINEAR_STAGE_BYTES;
  static constexpr u32 kBoxes = kGated ? 2 : kCluster, kShare = kColumns / kBoxes;  // of a tile's rows of the weight
  static constexpr u32 kResults = kGated ? kColumns / 2 : kColumns;                 // columns of y
  static constexpr u32 kHalves = 2;  // of 64 rows each, a tile's products
  using Stages = Pipeline<kStages, kStageBytes>;
  using End = Epilogue<T>;
  static_assert(End::kWarpBytes * kWarps == KW_LINEAR_EPILOGUE_BYTES, "params.h says how much there is");

  const KwLinearParams& p;
  Stages stages;
  TileScheduler tiles;
  u32 rank;  // in the cluster

  __device__ __forceinline__ explicit Linear(const KwLinearParams& p)
      : p(p), tiles{p.rows / kCluster, p.columns, p.group}, rank(blockIdx.x % kCluster) {
    stages.stages = (shared_address(linear_shared()) + 1023) & ~1023u;
    stages.barriers = end_room() + KW_LINEAR_EPILOGUE_BYTES;
  }

  __device__ __forceinline__ u32 end_room() const { return stages.stages + kStages * kStageBytes; }

  __device__ __forceinline__ void copy(const typename Stages::Stage& stage, u32 step, const Tile& tile) const {
    stages.acquire(stage, kStageBytes);
    const u32 to = stages.at(stage), full = stages.full(stage), k = step * kDepth;
    tma_load(to, &p.x, {k, (tile.row * kCluster + rank) * kRows}, full);
#pragma unroll
    for (u32 i = 0; i < kBoxes / kCluster; ++i) {
      const u32 box = kCluster > 1 ? rank : i, at[2] = {k, tile.column * kResults + box * (kGated ? p.n : kShare)};
      const u32 there = to + kLeftBytes + box * (kShare * 128);
      if constexpr (kCluster > 1) {
        tma_load_multicast(there, &p.weight, at, full, (1u << kCluster) - 1);
      } else {
        tma_load(there, &p.weight, at, full);
      }
    }
  }

  __device__ __forceinline__ void produce() const {
    typename Stages::Stage stage;
#pragma unroll 1
    for (u32 i = blockIdx.x / kCluster; i < tiles.count(); i += gridDim.x / kCluster) {
      const Tile tile = tiles.at(i);
#pragma unroll 1
      for (u32 step = 0; step < p.steps; ++step, stage.advance()) copy(stage, step, tile);
    }
  }

  // Where a warpgroup waits until the other one has issued its tile's products: before, stages are not its own, and a
  // parity may be that of an earlier phase.
  __device__ __forceinline__ u32 turn(u32 group) const { return stages.barriers + Stages::kBarrierBytes + group * 8; }

  using Sums = float[kHalves][kColumns / 2];

  __device__ __forceinline__ void multiply(Sums& d, u32 left, u32 right) const {
    constexpr u64 kLayout = smem_layout(Swizzle::k128, 1024);
    wgmma_fence();
#pragma unroll
    for (u32 i = 0; i < kDepth / 16 * kHalves; ++i) {
      const u32 half = i % kHalves, k = i / kHalves * 2;
      const u64 a = smem_descriptor(kLayout, left + half * (kLeftBytes / 32) + k);
      const u64 b = smem_descriptor(kLayout, right + k);
      if constexpr (T::kIsHalf) {
        wgmma_f16(d[half], a, b, 1);
      } else {
        wgmma_bf16(d[half], a, b, 1);
      }
    }
    wgmma_commit();
  }

  // The sums of a tile. A stage is left when the next one's products have been issued.
  __device__ __forceinline__ void sum(Sums& d, typename Stages::Stage& stage, u32 group) const {
#pragma unroll
    for (u32 i = 0; i < kHalves * (kColumns / 2); ++i) d[i / (kColumns / 2)][i % (kColumns / 2)] = 0.0f;
    typename Stages::Stage before = stage;
#pragma unroll 1
    for (u32 step = 0; step < p.steps; ++step) {
      stages.wait(stage);
      const u32 at = stages.at(stage);
      multiply(d, smem_matrix(at), smem_matrix(at + kLeftBytes));
      if (step > 0) {
        wgmma_wait<1>();
        stages.template leave<kCluster>(before);
      }
      before = stage;
      stage.advance();
    }
    if (threadIdx.x % 32 == 0) barrier_arrive(turn(1 - group));
#pragma unroll
    for (u32 half = 0; half < kHalves; ++half) wgmma_wait<0>(d[half]);
    stages.template leave<kCluster>(before);
  }

  __device__ __forceinline__ void consume() const {
    const u32 warp = same_in_warp(threadIdx.x / 32) - 4, group = warp / 4;
    const EpilogueParams of = {p.y, p.bias, p.y_pitch, p.m, p.n, p.activation, p.vectors != 0};
    const End end = {of, end_room() + warp * End::kWarpBytes};
    const u32 first = warp % 4 * End::kRows, every = gridDim.x / kCluster;
    typename Stages::Stage stage;
    u32 parity = 1 - group;  // of the warpgroup's turn: the first has its first one at once
    if (group == 1) stage.skip(p.steps);
#pragma unroll 1
    for (u32 i = blockIdx.x / kCluster + group * every; i < tiles.count(); i += 2 * every) {
      const Tile tile = tiles.at(i);
      Sums d;
      barrier_wait(turn(group), parity);
      sum(d, stage, group);
      stage.skip(p.steps);
      parity ^= 1;
      const u32 row = (tile.row * kCluster + rank) * kRows + first;
      if constexpr (kGated) {
        end.run_gated(d, row, tile.column * kResults);
      } else {
        end.run(d, row, tile.column * kResults);
      }
    }
  }

  __device__ __forceinline__ void run() const {
    allow_next_kernel();
    if (threadIdx.x == 0) {
      barrier_init(turn(0), 4);
      barrier_init(turn(1), 4);
      stages.init(kWarps / 2 * kCluster);
    }
    meet();
    wait_for_previous_kernel();
    if (threadIdx.x < 128) {
      release_registers<40>();
      if (threadIdx.x < 32 && one_lane()) produce();
    } else {
      take_registers<232>();
      consume();
    }
    if constexpr (kCluster > 1) meet();  // the other block may still copy to here, and arrive
  }

  __device__ __forceinline__ void meet() const {
    if constexpr (kCluster > 1) {
      __syncwarp();
      cluster_arrive_after_all();
      cluster_wait();
    } else {
      __syncthreads();
    }
  }
};

}  // namespace kw

#endif
