// SPDX-License-Identifier: MIT
// The product by warpgroups: one copies boxes of x and of the weight to stages of shared memory, two multiply, each 64
// of a tile's 128 rows by all of its columns, 256 where the GPU has enough such tiles: narrower ones read more from L2
// than it gives at the rate of 8-bit products. Two blocks of a cluster have the same columns: each copies half of the
// weight's rows to both. What is multiplied is the template's Kind: of int8 in kinds.cuh, of e4m3 in csrc/ops/fp8.
#pragma once

#include "device/pipeline.cuh"
#include "device/ptx/bulk.cuh"
#include "device/ptx/hints.cuh"
#include "device/ptx/registers.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/ptx/wgmma_wait.cuh"
#include "device/scheduler.cuh"
#include "ops/int8/device/matmul_result.cuh"

#ifdef KW_HAS_WGMMA

namespace kw {

__device__ __forceinline__ char* matmul_shared() {
  extern __shared__ __align__(128) char room[];
  return room;
}

template <class Kind, u32 kCluster, u32 kColumns>
struct MatmulBytes {
  static constexpr u32 kRows = KW_MATMUL_ROWS, kDepth = KW_MATMUL_DEPTH, kWarps = 8;  // those that multiply
  static constexpr u32 kLeftBytes = kRows * kDepth, kStageBytes = (kRows + kColumns) * kDepth;
  static constexpr u32 kStages = KW_MATMUL_STAGES_BYTES / kStageBytes;
  static constexpr u32 kShare = kColumns / kCluster, kSums = kColumns / 2;
  using Stages = Pipeline<kStages, kStageBytes>;
  using Sum = typename Kind::Sum;
  using Sums = Sum[kSums];

  const KwMatmulParams& p;
  Stages stages;
  TileScheduler tiles;
  u32 rank;  // in the cluster

  __device__ __forceinline__ explicit MatmulBytes(const KwMatmulParams& p)
      : p(p), tiles{p.rows / kCluster, p.columns, p.group}, rank(blockIdx.x % kCluster) {
    stages.stages = (shared_address(matmul_shared()) + 1023) & ~1023u;
    stages.barriers = rooms() + kWarps * KW_MATMUL_ROOM_BYTES;
  }

  __device__ __forceinline__ u32 rooms() const { return stages.stages + KW_MATMUL_STAGES_BYTES; }

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

  // Products of a stage, added to d or, kFresh, alone.
  template <bool kFresh = false, u32 kCount>
  __device__ __forceinline__ void multiply(Sum (&d)[kCount], u32 left, u32 right) const {
    constexpr u64 kLayout = smem_layout(Swizzle::k128, 1024);
    wgmma_fence();
#pragma unroll
    for (u32 k = 0; k < kDepth / 16; k += 2) {
      Kind::multiply(d, smem_descriptor(kLayout, left + k), smem_descriptor(kLayout, right + k), !kFresh || k > 0);
    }
    wgmma_commit();
  }

  // The sums of a tile. A stage is left when the next one's products have been issued.
  __device__ __forceinline__ void sum(Sums& d, typename Stages::Stage& stage, u32 group) const {
#pragma unroll
    for (u32 i = 0; i < kSums; ++i) d[i] = 0;
    typename Stages::Stage before = stage;
#pragma unroll 1
    for (u32 step = 0; step < p.steps; ++step) {
      stages.wait(stage);
      const u32 at = stages.at(stage);
      multiply(d, smem_matrix(at + group * (kLeftBytes / 2)), smem_matrix(at + kLeftBytes));
      if (step > 0) {
        wgmma_wait<1>();
        stages.template leave<kCluster>(before);
      }
      before = stage;
      stage.advance();
    }
    wgmma_wait<0>();
    wgmma_done(d);
    stages.template leave<kCluster>(before);
  }

  // Tensor cores add up products of e4m3 in fewer bits than float32 has. So each stage's products, 128 of k, are summed
  // by themselves, and those sums added in float32: of 128 columns at a time, or registers would not hold both. While
  // one warpgroup adds, the other's products go on.
  __device__ __forceinline__ void sum_promoted(Sums& d, typename Stages::Stage& stage, u32 group) const {
    constexpr u32 kPart = kSums < 64 ? kSums : 64;
    Sum part[kPart];
#pragma unroll
    for (u32 i = 0; i < kSums; ++i) d[i] = 0;
#pragma unroll
    for (u32 i = 0; i < kPart; ++i) part[i] = 0;
#pragma unroll 1
    for (u32 step = 0; step < p.steps; ++step, stage.advance()) {
      stages.wait(stage);
      const u32 at = stages.at(stage), left = smem_matrix(at + group * (kLeftBytes / 2));
#pragma unroll
      for (u32 first = 0; first < kSums; first += kPart) {
        multiply<true>(part, left, smem_matrix(at + kLeftBytes + first * 2 * kDepth));
        wgmma_wait<0>(part);
        if (first + kPart == kSums) stages.template leave<kCluster>(stage);
#pragma unroll
        for (u32 i = 0; i < kPart; ++i) d[first + i] += part[i];
      }
    }
  }

  // 32 columns at a time: which registers they are in must be known when the kernel is compiled.
  __device__ __forceinline__ void finish(const Sums& d, const MatmulRoom<Sum>& room, i64 row, i64 column) const {
#pragma unroll 1
    for (u32 slice = 0; slice < kSums / 16; ++slice) {
      __syncwarp();  // all have read the slice before
#pragma unroll
      for (u32 s = 0; s < kSums / 16; ++s) {
        if (s != slice) continue;
#pragma unroll
        for (u32 i = 0; i < 8; ++i) room.put(i / 2, i % 2, d[s * 16 + i * 2], d[s * 16 + i * 2 + 1]);
      }
      __syncwarp();
      room.finish(p.to, row, column + slice * 32, p.activation);
    }
  }

  __device__ __forceinline__ void consume() const {
    const u32 warp = same_in_warp(threadIdx.x / 32) - 4, group = warp / 4, every = gridDim.x / kCluster;
    const MatmulRoom<Sum> room = {rooms() + warp * KW_MATMUL_ROOM_BYTES};
    typename Stages::Stage stage;
#pragma unroll 1
    for (u32 i = blockIdx.x / kCluster; i < tiles.count(); i += every) {
      const Tile tile = tiles.at(i);
      Sums d;
      if constexpr (Kind::kPromotes) {
        sum_promoted(d, stage, group);
      } else {
        sum(d, stage, group);
      }
      finish(d, room, static_cast<i64>(tile.row * kCluster + rank) * kRows + warp * 16, i64{tile.column} * kColumns);
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

#endif
