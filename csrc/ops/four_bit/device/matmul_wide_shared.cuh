// SPDX-License-Identifier: MIT
// What a block of matmul_wide.cuh has in shared memory, one after the other: the table of pairs, in the second halves
// of whose entries slots of transposed codes and scales lie; stages of x and codes; for each warp that multiplies some
// room for results; barriers.
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
struct WideShared4bit {
  static constexpr u32 kStages = wide_stages(kCols), kXBytes = kCols * kWideDepth * 2;
  static constexpr u32 kStageBytes = wide_stage_bytes(kCols);  // x, then codes
  using X = Pipeline<kStages, kStageBytes>;
  using Codes = Pipeline<kWideSlots, 0>;
  X x;
  Codes codes;
  u32 table, results;

  __device__ __forceinline__ WideShared4bit() {
    table = shared_address(wide_shared());
    x.stages = (table + kWideTable + 1023) & ~1023u;
    results = x.stages + kStages * kStageBytes;
    x.barriers = results + kWideWarps * kWideEnd;
    codes.stages = 0;
    codes.barriers = x.barriers + X::kBarrierBytes;
  }

  // By one thread. A stage is left by the warps of both blocks that multiply and by the one that transposes its codes.
  __device__ __forceinline__ void init() const {
    x.init(kWideWarps * kWideCluster + 1);
    codes.init(kWideWarps);
  }

  // Where a slot begins: its gaps of 128 bytes are kPairPitch apart.
  __device__ __forceinline__ u32 slot(const typename Codes::Stage& of) const {
    return table + of.index * (kWideSlotGaps * kPairPitch) + kPairBytes;
  }

  // From there on, 16 bytes of codes of a lane: those of 16 rows of a warp are four gaps. The exclusive or keeps eight
  // lanes that bring words, of as many rows, from meeting in a bank.
  static __device__ __forceinline__ u32 unit(u32 group, u32 place) {
    const u32 at = (group * 4 + place) ^ group >> 1;
    return at / 8 * kPairPitch + at % 8 * 16;
  }

  static constexpr u32 kUnits = 4 * kPairPitch;  // from a warp's units to the next one's

  // The two scales of a row, of the first and the second 32 of k.
  static __device__ __forceinline__ u32 scales(u32 row) { return (32 + row / 16) * kPairPitch + row % 16 * 8; }
};

}  // namespace kw
