// SPDX-License-Identifier: MIT
// What a block of matmul_wide.cuh has in shared memory, one after the other: the table of pairs, in the second halves
// of whose entries slots of codes and scales lie; stages of x; for each warp that multiplies some room for results;
// barriers.
#pragma once

#include "device/pipeline.cuh"
#include "device/ptx/hints.cuh"
#include "device/ptx/shared.cuh"
#include "device/reduce.cuh"
#include "ops/four_bit/geometry.h"

namespace kw {

// Aligned so that an offset from here is a byte of codes and what follows it.
__device__ __forceinline__ char* wide_shared() {
  extern __shared__ __align__(1024) char matmul_4bit_wide_shared[];
  return matmul_4bit_wide_shared;
}

template <u32 kCols>
struct WidePlace4bit {
  static constexpr u32 kStages = wide_stages(kCols), kStageBytes = kCols * kWideDepth * 2;
  using X = Pipeline<kStages, kStageBytes>;
  using Codes = Pipeline<kWideSlots, 0>;
  X x;
  Codes codes;
  u32 table, results;

  __device__ __forceinline__ WidePlace4bit() {
    table = shared_address(wide_shared());
    x.stages = (table + kWideTable + 1023) & ~1023u;
    results = x.stages + kStages * kStageBytes;
    x.barriers = results + kWideWarps * kWideEnd;
    codes.stages = 0;
    codes.barriers = x.barriers + X::kBarrierBytes;
  }

  // By one thread.
  __device__ __forceinline__ void init() const {
    x.init(kWideWarps * kWideCluster);
    codes.init(kWideWarps);
  }

  // The gap in which 128 bytes of a slot lie.
  __device__ __forceinline__ u32 gap(const typename Codes::Stage& slot, u32 which) const {
    return table + (slot.index * kWideSlotGaps + which) * kPairPitch + kPairBytes;
  }

  // 16 bytes of codes of a lane: those of 16 rows of a warp are four gaps. The exclusive or keeps eight lanes that
  // bring words, of as many rows, from meeting in a bank.
  __device__ __forceinline__ u32 unit(const typename Codes::Stage& slot, u32 warp, u32 group, u32 place) const {
    const u32 at = (group * 4 + place) ^ group >> 1;
    return gap(slot, warp * 4 + at / 8) + at % 8 * 16;
  }

  // The two scales of a row, of the first and the second 32 of k.
  __device__ __forceinline__ u32 scales(const typename Codes::Stage& slot, u32 row) const {
    return gap(slot, 32 + row / 16) + row % 16 * 8;
  }
};

}  // namespace kw
