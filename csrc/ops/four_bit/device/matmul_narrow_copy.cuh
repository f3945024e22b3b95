// SPDX-License-Identifier: MIT
// How x gets to where the tensor cores of matmul_narrow.cuh read it: stages that some warps copy for all.
#pragma once

#include "device/ptx/bulk.cuh"
#include "device/ptx/wgmma.cuh"
#include "ops/four_bit/device/matmul_narrow_shared.cuh"

namespace kw {

// Stages of x, in the order in which all warps read them.
template <u32 kCols>
struct NarrowX4bit {
  using Shared = NarrowShared4bit<kCols>;
  static constexpr u32 kCopying = 8;  // warps that copy in turn, all of which have a part in every step
  static constexpr u32 kStages = Shared::kStages, kStageSlices = Shared::kStageSlices;
  static constexpr u32 kStepStages = kStepSlices / kStageSlices;
  const Shared shared;
  const char* from;  // the block's first slice
  u32 slices;        // of the block; stages are counted from the first on

  __device__ __forceinline__ NarrowX4bit(const KwMatmul4bitNarrowParams& p, const NarrowPart4bit& part)
      : from(p.x + (part.group * u64{p.slices} + part.step * kStepSlices) * Shared::kSlice), slices(part.slices) {}

  // The warps with shared rows have no part in every other step, and its stages.
  __device__ __forceinline__ void init(u32 split, u32 sides, u32 side) const {
    static_assert(kStages % (2 * kStepStages) == 0, "a slot is for stages of odd steps, or of even ones");
#pragma unroll 1
    for (u32 i = 0; i < kStages; ++i) {
      barrier_init(shared.full(i), 1);
      barrier_init(shared.empty(i), sides == 1 || i / kStepStages % 2 == side ? kNarrowWarps : kOwnWarps);
    }
    barrier_init(shared.sums_barrier(), split > 1 ? kNarrowWarps : kNarrowWarps - kOwnWarps);
    barriers_are_there();
  }

  // By one thread, where k goes so far. What lay there has been read by all.
  __device__ __forceinline__ void copy(u32 wanted) const {
    const u32 first = wanted * kStageSlices, slot = wanted % kStages;
    if (first >= slices) return;
    const u32 left = slices - first, bytes = (left < kStageSlices ? left : kStageSlices) * Shared::kSlice;
    if (wanted >= kStages) barrier_wait(shared.empty(slot), (wanted / kStages - 1) & 1u);
    barrier_expect(shared.full(slot), bytes);
    copy_bulk(shared.x + slot * Shared::kStage, from + first * u64{Shared::kSlice}, bytes, shared.full(slot));
  }

  __device__ __forceinline__ void begin() const {
    if (threadIdx.x != 0) return;
#pragma unroll 1
    for (u32 i = 0; i < kStages; ++i) copy(i);
  }

  // The right matrix that begins with the stage, now that it is there.
  __device__ __forceinline__ u32 wait(u32 stage) const {
    barrier_wait(shared.full(stage % kStages), stage / kStages & 1u);
    return smem_matrix(shared.x + stage % kStages * Shared::kStage);
  }

  // The warp has read a stage. What it and the others have left before, and those have had time for, is copied to, by
  // some warps in turn.
  __device__ __forceinline__ void leave(u32 left) const {
    if (threadIdx.x % kWarp == 0) barrier_arrive(shared.empty(left % kStages));
    if (threadIdx.x == left % kCopying * kWarp && left > 0) copy(left + kStages - 1);
    __syncwarp();
  }
};

}  // namespace kw
