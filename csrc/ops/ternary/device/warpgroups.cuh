// SPDX-License-Identifier: MIT
// y = x * weight^T by warpgroups: one copies boxes of x and blocks of the weight to stages of shared memory, two take
// tiles in turn, so that one multiplies while the other brings its sums to memory. The weight is the left matrix: its
// codes become bytes in registers while products of others are on their way. Two blocks of a cluster have the same rows
// of x: each copies half of them to both.
#pragma once

#include "device/pipeline.cuh"
#include "device/ptx/bulk.cuh"
#include "device/ptx/hints.cuh"
#include "device/ptx/registers.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/ptx/wgmma_s8_registers.cuh"
#include "device/ptx/wgmma_wait.cuh"
#include "device/scheduler.cuh"
#include "ops/ternary/device/decode.cuh"
#include "ops/ternary/device/few.cuh"

#ifdef KW_HAS_WGMMA

namespace kw {

template <u32 kCluster>
struct TernaryWide {
  static constexpr u32 kRows = KW_TERNARY_TILE_ROWS, kColumns = KW_TERNARY_TILE_COLUMNS, kDepth = KW_TERNARY_DEPTH;
  static constexpr u32 kWarps = 8, kStages = KW_TERNARY_WIDE_STAGES, kStageBytes = KW_TERNARY_WIDE_STAGE_BYTES;
  static constexpr u32 kBlocks = kRows / KW_TERNARY_ROWS, kShare = kColumns / kCluster;
  static constexpr u32 kHalves = 2;  // of 64 rows each, a tile's products
  using Stages = Pipeline<kStages, kStageBytes>;
  using Sums = int[kHalves][kColumns / 2];
  using Left = u32[KW_TERNARY_STEPS][4];

  const KwMatmulTernaryWideParams& p;
  Stages stages;
  TileScheduler tiles;
  u32 rank;  // in the cluster

  __device__ __forceinline__ explicit TernaryWide(const KwMatmulTernaryWideParams& p)
      : p(p), tiles{p.rows / kCluster, p.columns, p.group}, rank(blockIdx.x % kCluster) {
    stages.stages = (shared_address(ternary_shared()) + 1023) & ~1023u;
    stages.barriers = end_room() + kWarps * KW_TERNARY_SLICE_BYTES;
  }

  __device__ __forceinline__ u32 end_room() const { return stages.stages + kStages * kStageBytes; }

  __device__ __forceinline__ u32 row_of(const Tile& tile) const { return tile.row * kCluster + rank; }

  __device__ __forceinline__ void copy(const typename Stages::Stage& stage, u32 step, const Tile& tile) const {
    stages.acquire(stage, kStageBytes);
    const u32 to = stages.at(stage), full = stages.full(stage), first = rank * kShare;
    const u32 x_at[2] = {step * kDepth, tile.column * kColumns + first};
    const u32 weight_at[3] = {0, step, row_of(tile) * kBlocks};
    tma_load(to + KW_TERNARY_WIDE_X_BYTES, &p.packed, weight_at, full);
    if constexpr (kCluster > 1) {
      tma_load_multicast(to + first * 128, &p.x, x_at, full, (1u << kCluster) - 1);
    } else {
      tma_load(to, &p.x, x_at, full);
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

  __device__ __forceinline__ void decode(u32 stage, u32 half, Left& left) const {
    const u32 block = half * 4 + threadIdx.x / 32 % 4;
    u32 word[4];
    load_shared<16>(stage + KW_TERNARY_WIDE_X_BYTES + block * KW_TERNARY_BLOCK + threadIdx.x % 32 * 16, word);
#pragma unroll
    for (u32 step = 0; step < KW_TERNARY_STEPS; ++step) ternary_decode(word, step, left[step]);
  }

  __device__ __forceinline__ void multiply(int (&d)[kColumns / 2], const Left& left, u32 right) const {
    constexpr u64 kLayout = smem_layout(Swizzle::k128, 1024);
    wgmma_fence();
#pragma unroll
    for (u32 step = 0; step < KW_TERNARY_STEPS; ++step) {
      wgmma_s8(d, left[step], smem_descriptor(kLayout, right + step * 2), 1);
    }
    wgmma_commit();
  }

  // The sums of a tile. While a half's products are on their way the other's left matrices are decoded, into registers
  // that the ones before them have left; a stage is left when the next one's first products have been issued.
  __device__ __forceinline__ void sum(Sums& d, typename Stages::Stage& stage, u32 group) const {
#pragma unroll
    for (u32 i = 0; i < kHalves * (kColumns / 2); ++i) d[i / (kColumns / 2)][i % (kColumns / 2)] = 0;
    Left left[kHalves];
    typename Stages::Stage before = stage;
#pragma unroll 1
    for (u32 step = 0; step < p.steps; ++step) {
      stages.wait(stage);
      const u32 at = stages.at(stage), right = smem_matrix(at);
      decode(at, 0, left[0]);
      multiply(d[0], left[0], right);
      wgmma_wait<1>();
      if (step > 0) stages.template leave<kCluster>(before);
      decode(at, 1, left[1]);
      multiply(d[1], left[1], right);
      wgmma_wait<1>();
      before = stage;
      stage.advance();
    }
    if (threadIdx.x % 32 == 0) barrier_arrive(turn(1 - group));
    wgmma_wait<0>();
#pragma unroll
    for (u32 half = 0; half < kHalves; ++half) wgmma_done(d[half]);
    stages.template leave<kCluster>(before);
  }

  __device__ __forceinline__ void consume() const {
    const u32 warp = same_in_warp(threadIdx.x / 32) - 4, group = warp / 4, every = gridDim.x / kCluster;
    const TernaryEpilogue end = {p.end, end_room() + warp * KW_TERNARY_SLICE_BYTES};
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
      const u32 first = row_of(tile) * kRows + warp % 4 * KW_TERNARY_ROWS;
      end.run(d, tile.column * kColumns, first, 64);
    }
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
};

}  // namespace kw

#endif
