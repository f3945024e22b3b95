// SPDX-License-Identifier: MIT
// What a block of matmul_narrow.cuh has in shared memory, and which part of the product it has. In shared memory
// lie one after the other: the table of pairs, and between its lines the scales of each warp's steps; a ring of stages
// of x; for each warp a ring of slots for steps of codes; barriers. Sums come later, to where x and codes were.
//
// A slice is 64 of k, never of two scales; a step is four of them, a stage two or four. Blocks of a cluster share the
// steps.
#pragma once

#include "device/ptx/hints.cuh"
#include "device/ptx/shared.cuh"
#include "device/reduce.cuh"
#include "ops/four_bit/device/matmul_narrow_x.cuh"
#include "ops/four_bit/geometry.h"
#include "ops/four_bit/params.h"

namespace kw {

// Aligned for the boxes of scales that lie between the lines of the table, which begins it.
__device__ __forceinline__ char* narrow_shared() {
  extern __shared__ __align__(1024) char matmul_4bit_narrow_shared[];
  return matmul_4bit_narrow_shared;
}

template <u32 kCols>
struct NarrowShared4bit {
  static constexpr u32 kSlice = kCols * kSliceBytes;
  static constexpr u32 kStageSlices = narrow_stage_slices(kCols);
  static constexpr u32 kStage = kStageSlices * kSlice;
  static constexpr u32 kStages = kNarrowStages;  // of x
  u32 table, x, codes, barriers;

  __device__ __forceinline__ NarrowShared4bit() {
    table = shared_address(narrow_shared());
    x = (table + 256 * kPairPitch + 1023) & ~1023u;
    codes = x + kStages * kStage;
    barriers = codes + kNarrowWarps * kStepSlots * kStepBytes;
  }

  __device__ __forceinline__ u32 full(u32 stage) const { return barriers + stage * 8; }
  __device__ __forceinline__ u32 empty(u32 stage) const { return barriers + (kStages + stage) * 8; }
  __device__ __forceinline__ u32 sums_barrier() const { return barriers + 2 * kStages * 8; }
  // Of a warp's slots for steps of codes, the first.
  __device__ __forceinline__ u32 codes_barrier(u32 warp) const {
    return barriers + (2 * kStages + 1 + warp * kStepSlots) * 8;
  }
};

// Which part of the product the block has, and which of that the warp.
//
// Two sides have 448 rows: each 192 of its own, and both the last 64, of which the last four warps of each side have
// every other step. So 28672 rows keep 128 multiprocessors busy with 224 rows each instead of 112 with 256.
struct NarrowPart4bit {
  u32 group;        // of the rows of x
  u32 first_row;    // of the weight, of the block
  u32 row;          // of the warp's 16, the first, from there on
  u32 piece;        // of k
  u32 step, steps;  // from the first to behind the last one, of the block
  u32 slices;       // of these steps
  u32 side;
  bool shared;          // the warp's rows are those that both sides have
  u32 sharer, sharers;  // of the blocks that have the warp's rows, which one this is

  __device__ __forceinline__ NarrowPart4bit(const KwMatmul4bitNarrowParams& p, u32 block, u32 thread) {
    const u32 warp = same_in_warp(thread / kWarp), blocks = p.split * p.sides;
    const u32 cluster = block / blocks, rank = block - cluster * blocks, part = rank / p.sides;
    const u32 whole = cluster / p.pieces, tile = whole / p.groups;
    piece = cluster - whole * p.pieces;
    group = whole - tile * p.groups;
    side = rank - part * p.sides;
    first_row = tile * kNarrowRows;
    row = warp * 16;
    shared = p.sides > 1 && warp >= kOwnWarps;
    if (p.sides > 1) first_row = tile * kSidesRows + side * (kOwnWarps * 16);
    if (shared) row += (1 - side) * (kOwnWarps * 16);
    sharers = shared ? blocks : p.split;
    sharer = shared ? rank : part;
    const u32 all = (p.slices + kStepSlices - 1) / kStepSlices;
    const u32 share = piece * p.split + part, shares = p.pieces * p.split;
    step = share * all / shares;
    steps = (share + 1) * all / shares;
    const u32 end = steps * kStepSlices;
    slices = (end < p.slices ? end : p.slices) - step * kStepSlices;
  }

  // Of the warp: the first of its steps, and how far one is from the next.
  __device__ __forceinline__ u32 first_step() const { return shared ? step + side : step; }
  __device__ __forceinline__ u32 stride() const { return shared ? 2u : 1u; }

  // Which block of the cluster another sharer of the warp's rows is.
  __device__ __forceinline__ u32 block_of(u32 other, u32 sides) const { return shared ? other : other * sides + side; }
};

}  // namespace kw
