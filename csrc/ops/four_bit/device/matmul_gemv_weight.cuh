// SPDX-License-Identifier: MIT
// What a warp of matmul_gemv.cuh reads of the weight: for a unit of rows and a step of k, codes straight into
// registers, and the scales they need. A lane's group is lane / 4, its place in it lane % 4; a group reads 64
// bytes, 128 of k, of one row, and as many of another one that is half a unit further.
//
// kRanges: 1, 2 or 4 groups side by side read one row, each a range of 128 of k of its own: as much as one product
// leaves columns for. A lane then reads 16 bytes at once. 0: each group has a row, and all four of its lanes the same
// 64 of k at a time, 8 bytes each.
#pragma once

#include "device/ptx/bulk.cuh"
#include "device/ptx/hints.cuh"
#include "device/ptx/matrix.cuh"
#include "device/ptx/memory.cuh"
#include "ops/four_bit/device/matmul_gemv_table.cuh"
#include "ops/four_bit/device/scales.cuh"

namespace kw {

// Of the lane's two rows of a unit: 32 codes each, and two scales as floats or, as they came, what those are made of.
struct GemvSlot4bit {
  u32 codes[2][4];
  u32 scale[2][2];
};

// Where the loads of half of a warp's units begin: of two units, two rows each.
struct GemvFrom4bit {
  const char *codes[4], *scales[4];
};

template <u32 kRanges>
struct GemvWeight4bit {
  static constexpr u32 kSideBySide = kRanges > 0 ? kRanges : 1;
  static constexpr u32 kUnitRows = 16 / kSideBySide;
  static constexpr u32 kStepBlocks = 2 * kSideBySide;  // of 64 of k
  static constexpr u32 kSteps = 4 / kSideBySide;       // whose scales are read at once, 32 bytes a row if floats
  // Where the four lanes of a group want the same scales of four rows and those are quantized, each makes those of one.
  static constexpr bool kShares = kRanges == 4;
  const KwMatmul4bitParams& p;
  const u32 lane_offset;    // in an entry of the table
  const u32 row_of_unit;    // the lane's first
  const u32 block_of_step;  // and its first 64 of k
  const u32 zero;           // which compilers do not know
  const u32 shared;         // where the table begins
  const char* codes;
  const bool plain, narrow;  // scales are floats; a scale is for no more than 64

  __device__ __forceinline__ explicit GemvWeight4bit(const KwMatmul4bitParams& p)
      : p(p),
        lane_offset(threadIdx.x % kWarp * 4),
        row_of_unit(threadIdx.x % kWarp / 4 / kSideBySide),
        block_of_step(threadIdx.x / 4 % kSideBySide * 2),
        zero(static_cast<u32>(p.n >> 62)),
        shared(shared_address(dynamic_shared())),
        codes(p.packed + threadIdx.x % 4 * (kRanges > 0 ? 16 : 8)),
        plain(p.scales.absmax != nullptr),
        narrow(p.scales.block_log2 == 6) {}

  // Whether the lane's part of a step is there. Steps are whole where they are one range.
  __device__ __forceinline__ bool inside(u32 step) const {
    return kSideBySide == 1 || step * kStepBlocks + block_of_step < p.row_blocks;
  }

  // Of the weight's blocks of 64, counted through: where the lane's are in one of its two rows of a unit, from the
  // beginning of that row. Past the last row they are the last one's, which nobody stores.
  __device__ __forceinline__ u32 row_at(u32 unit, u32 half) const {
    const u32 row = unit * kUnitRows + half * (kUnitRows / 2) + row_of_unit, last = static_cast<u32>(p.n) - 1;
    return (row < last ? row : last) * p.row_blocks + block_of_step;
  }

  // Has L2 bring the codes that a block reads first, of these units: more of them cost more than they gave.
  __device__ __forceinline__ void prefetch_codes(u32 first_unit, u32 end_unit) const {
#ifdef KW_HAS_TMA
    constexpr u32 kMost = 16384;
    const u32 rows = static_cast<u32>(p.n), first = first_unit * kUnitRows, end = end_unit * kUnitRows;
    const u32 blocks = ((end < rows ? end : rows) - first) * p.row_blocks;
    const char* from = p.packed + first * p.row_blocks * u64{32};
    if (threadIdx.x == 0) prefetch_bulk(from, (blocks < kMost / 32 ? blocks : kMost / 32) * 32);
#endif
  }

  __device__ __forceinline__ void fetch_pair(u32 at, u32 (&to)[2]) const {
    if (plain && narrow) return load<8>(p.scales.absmax + at * u64{4}, to);
    const u32 block = at >> (p.scales.block_log2 - 6);
    if (plain) return load<4>(p.scales.absmax + block * u64{4}, to);
    if (narrow) {
      load<2>(p.scales.codes + block, to);
    } else {
      load<1>(p.scales.codes + block, to);
    }
    load<4>(p.scales.absmax2 + (block >> kScalesLog2) * u64{4}, to + 1);
  }

  // Past the end of the weight something that is there, and not to be used.
  __device__ __forceinline__ u32 within(u32 at) const { return at < p.last_block ? at : p.last_block; }

  __device__ __forceinline__ void fetch_codes(u32 at, u32 half, GemvSlot4bit& slot) const {
    if constexpr (kSideBySide > 1) at = within(at);
    const char* from = codes + at * u64{32};
    if constexpr (kRanges > 0) {
      load_once(from, slot.codes[half]);
    } else {
      load<8>(from, slot.codes[half]);
      load<8>(from + 32, slot.codes[half] + 2);
    }
  }

  // Of kSteps steps, each place of a group those of one.
  __device__ __forceinline__ void fetch_scales(u32 at, u32 half, GemvSlot4bit& slot) const {
    fetch_pair(within(at + threadIdx.x % kSteps * kStepBlocks), slot.scale[half]);
  }

  // Of a row that begins at `row`. Rounded after each step, as everywhere (scales.cuh).
  __device__ __forceinline__ void make_scales(u32 row, u32 (&scale)[2]) const {
    const u32 code = scale[0];
    if (plain) {
      scale[1] = code;
      return;
    }
    const float by = float_of_bits(scale[1]);
    u32 offset[1], value[1];
    load_shared<4>(shared + kOffsetAt + part_of(p.scales, row, p.part_shift) * 4, offset);
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
      load_shared<4>(shared + kMapAt + table_address(narrow && i > 0 ? code >> 8 : code, 0, lane_offset), value);
      const float scaled = multiply_rounded(float_of_bits(value[0]), by);
      scale[i] = bits_of_float(add_rounded(scaled, float_of_bits(offset[0])));
    }
  }

  // Waits for what was fetched. That takes instructions that use it, before the next is sent for: a warp can wait for
  // six things, so that later on it would wait for the new loads with the old ones. And it takes them on every path.
  __device__ __forceinline__ void arrive(bool with_scales, const u32 (&row)[2], u32 zero, GemvSlot4bit& slot) const {
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
      slot.codes[i][0] = exclusive_or(slot.codes[i][0], zero);
      if constexpr (kRanges == 0) slot.codes[i][2] = exclusive_or(slot.codes[i][2], zero);
      slot.scale[i][0] = exclusive_or(slot.scale[i][0], zero);
      slot.scale[i][1] = exclusive_or(slot.scale[i][1], zero);
      if (with_scales && !(plain && narrow)) make_scales(row[i], slot.scale[i]);
    }
  }

  // The same where scales are shared: of the two slots of a half those of the lane's first row are what it makes for
  // its group, of the row whose number is the lane's place.
  __device__ __forceinline__ void arrive_shared(u32 which, u32 row, u32 zero, GemvSlot4bit (&slots)[2]) const {
    u32(&made)[2] = slots[0].scale[0];
    made[0] = exclusive_or(made[0], zero);
    made[1] = exclusive_or(made[1], zero);
    make_scales(row, made);
    const u32 warp = threadIdx.x / kWarp, group = threadIdx.x % kWarp / 4;
    const u32 at = shared + kTableBytes + (warp * 2 + which) * kSharedScales + group * 32;
    store_shared<8>(at + threadIdx.x % 4 * 8, made);
    __syncwarp();
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
      slots[i].codes[0][0] = exclusive_or(slots[i].codes[0][0], zero);
      slots[i].codes[1][0] = exclusive_or(slots[i].codes[1][0], zero);
      u32 word[4];
      load_shared<16>(at + i * 16, word);
#pragma unroll
      for (u32 j = 0; j < 4; ++j) slots[i].scale[j / 2][j % 2] = word[j];
    }
  }

  // Of a step, as floats: for each of the lane's rows two.
  __device__ __forceinline__ void scales(const GemvSlot4bit& slot, u32 step, float (&by)[2][2]) const {
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      float& scale = by[i / 2][i % 2];
      scale = float_of_bits(slot.scale[i / 2][i % 2]);
      if constexpr (kSteps > 1) scale = shuffle_in_group(scale, step % kSteps);
      if (!inside(step)) scale = 0.0f;
    }
  }

  // The pair of byte `which` of the 16 that a lane has of a row.
  __device__ __forceinline__ u32 pair(const u32 (&of_row)[4], u32 which) const {
    return look_up(of_row[which / 4], which % 4, lane_offset);
  }
};

}  // namespace kw
