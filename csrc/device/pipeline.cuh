// SPDX-License-Identifier: MIT
// Stages of shared memory between the warp that copies and the warps that compute: of each, one barrier says that it is
// full, one that it is empty. In a cluster a copy may go to all of its blocks: then a stage is empty when the warps of
// all of them have left it.
#pragma once

#include "device/ptx/mbarrier.cuh"
#include "device/ptx/sync.cuh"

namespace kw {

#ifdef KW_HAS_TMA

// The stage that is next, and the parity of its phase.
template <u32 kStages>
struct PipelineStage {
  u32 index = 0, phase = 0;

  __device__ __forceinline__ void advance() {
    if (++index == kStages) index = 0, phase ^= 1;
  }

  // Past stages of somebody else.
  __device__ __forceinline__ void skip(u32 count) {
    index += count;
    phase ^= index / kStages & 1;
    index %= kStages;
  }
};

template <u32 kStages, u32 kStageBytes>
struct Pipeline {
  static constexpr u32 kBarrierBytes = kStages * 16;
  using Stage = PipelineStage<kStages>;
  u32 stages, barriers;  // addresses of shared memory

  __device__ __forceinline__ u32 at(const Stage& stage) const { return stages + stage.index * kStageBytes; }
  __device__ __forceinline__ u32 full(const Stage& stage) const { return barriers + stage.index * 8; }
  __device__ __forceinline__ u32 empty(const Stage& stage) const { return full(stage) + kStages * 8; }

  // By one thread, then all meet. `leaving`: warps of the whole cluster that leave a stage; `filling`: those that fill
  // it, where it is no copy that does.
  __device__ __forceinline__ void init(u32 leaving, u32 filling = 1) const {
#pragma unroll 1
    for (u32 i = 0; i < kStages; ++i) {
      barrier_init(barriers + i * 8, filling);
      barrier_init(barriers + (kStages + i) * 8, leaving);
    }
    barriers_are_there();
  }

  // Of the thread that copies: the stage is its own, and will be full after so many bytes.
  __device__ __forceinline__ void acquire(const Stage& stage, u32 bytes) const {
    barrier_wait(empty(stage), stage.phase ^ 1);
    barrier_expect(full(stage), bytes);
  }

  __device__ __forceinline__ void wait(const Stage& stage) const { barrier_wait(full(stage), stage.phase); }

  // By every lane of a warp that has read the stage.
  template <u32 kCluster>
  __device__ __forceinline__ void leave(const Stage& stage) const {
    const u32 lane = threadIdx.x % 32;
    if constexpr (kCluster > 1) {
      if (lane < kCluster) barrier_arrive_cluster(address_in_cluster(empty(stage), lane));
    } else {
      if (lane == 0) barrier_arrive(empty(stage));
    }
  }
};

#endif

}  // namespace kw
