// SPDX-License-Identifier: MIT
// y = activation(x * weight^T + bias) by warpgroups: one copies boxes of x and of the weight to stages of shared
// memory, two multiply, 64 rows of x each. Two blocks of a cluster have the same columns: each copies half of the
// weight's rows to both.
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

namespace kw {

__device__ __forceinline__ char* linear_shared() {
  extern __shared__ __align__(128) char room[];
  return room;
}

template <class T, u32 kColumns, u32 kCluster>
struct Linear {
  static constexpr u32 kRows = KW_LINEAR_ROWS, kDepth = KW_LINEAR_DEPTH, kWarps = 8;  // those that multiply
  static constexpr u32 kLeftBytes = kRows * kDepth * 2, kStages = KW_LINEAR_STAGES(kColumns);
  static constexpr u32 kStageBytes = KW_LINEAR_STAGE_BYTES(kColumns), kShare = kColumns / kCluster;
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
    const u32 first = rank * kShare, at[2] = {k, tile.column * kColumns + first};
    if constexpr (kCluster > 1) {
      tma_load_multicast(to + kLeftBytes + first * 128, &p.weight, at, full, (1u << kCluster) - 1);
    } else {
      tma_load(to + kLeftBytes, &p.weight, at, full);
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

  __device__ __forceinline__ void multiply(float (&d)[kColumns / 2], u32 stage, u32 group) const {
    constexpr u64 kLayout = smem_layout(Swizzle::k128, 1024);
    const u32 left = smem_matrix(stage + group * (kLeftBytes / 2)), right = smem_matrix(stage + kLeftBytes);
    wgmma_fence();
#pragma unroll
    for (u32 i = 0; i < kDepth / 16; ++i) {
      const u64 a = smem_descriptor(kLayout, left + i * 2), b = smem_descriptor(kLayout, right + i * 2);
      if constexpr (T::kIsHalf) {
        wgmma_f16(d, a, b, 1);
      } else {
        wgmma_bf16(d, a, b, 1);
      }
    }
    wgmma_commit();
  }

  // The sums of a tile's 64 rows. A stage is left when the next one's products have been issued.
  __device__ __forceinline__ void sum(float (&d)[kColumns / 2], typename Stages::Stage& stage, u32 group) const {
#pragma unroll
    for (u32 i = 0; i < kColumns / 2; ++i) d[i] = 0.0f;
    typename Stages::Stage before = stage;
#pragma unroll 1
    for (u32 step = 0; step < p.steps; ++step) {
      stages.wait(stage);
      multiply(d, stages.at(stage), group);
      if (step > 0) {
        wgmma_wait<1>();
        stages.template leave<kCluster>(before);
      }
      before = stage;
      stage.advance();
    }
    wgmma_wait<0>(d);
    stages.template leave<kCluster>(before);
  }

  __device__ __forceinline__ void consume() const {
    const u32 warp = same_in_warp(threadIdx.x / 32) - 4, group = warp / 4;
    const EpilogueParams of = {p.y, p.bias, p.y_pitch, p.m, p.n, p.activation, p.vectors != 0};
    const End end = {of, end_room() + warp * End::kWarpBytes};
    typename Stages::Stage stage;
#pragma unroll 1
    for (u32 i = blockIdx.x / kCluster; i < tiles.count(); i += gridDim.x / kCluster) {
      const Tile tile = tiles.at(i);
      float d[kColumns / 2];
      sum(d, stage, group);
      end.run(d, (tile.row * kCluster + rank) * kRows + warp * End::kRows, tile.column * kColumns);
    }
  }

  __device__ __forceinline__ void run() const {
    allow_next_kernel();
    if (threadIdx.x == 0) stages.init(kWarps * kCluster);
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
