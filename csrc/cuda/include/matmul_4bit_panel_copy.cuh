// SPDX-License-Identifier: MIT
// What a block of matmul_4bit_panel.cuh has in shared memory, and how it gets there. One after the other: the table of
// pairs, and between its lines the scales of each warp's step; a ring of stages of x, which the warps copy in turn for
// all; for each warp a ring of steps of codes, which it copies for itself; barriers. Sums come later, to where codes
// were.
//
// A slice is 64 of k, never of two scales; a stage is two, a step four of them. The blocks of a cluster share the
// steps.
#pragma once

#include "four_bit_scales.cuh"
#include "matmul_4bit_panel_x.cuh"
#include "ptx_async.cuh"
#include "ptx_bulk.cuh"
#include "ptx_hints.cuh"
#include "ptx_matrix.cuh"
#include "ptx_shared.cuh"
#include "ptx_wgmma.cuh"

namespace kw {

constexpr u32 kPanelWarps = 16;
constexpr u32 kPanelRows = kPanelWarps * 16;
constexpr u32 kStepSlices = 4;
constexpr u32 kPairPitch = 256;       // bytes of the table for a byte of codes: its place is then part of an address
constexpr u32 kPairBytes = 128;       // of these, for a pair of each lane
constexpr u32 kStepBytes = 16 * 128;  // of a warp's codes
constexpr u32 kStepSlots = 3;         // of which all but one are on their way
constexpr u32 kStageSlices = 2;       // of x, that are copied at once
constexpr u32 kStages = 4;

__device__ __forceinline__ char* panel_shared() {
  extern __shared__ __align__(16) char matmul_4bit_panel_shared[];
  return matmul_4bit_panel_shared;
}

template <u32 kCols>
struct PanelPlace4bit {
  static constexpr u32 kSlice = kCols * kSliceBytes;
  static constexpr u32 kStage = kStageSlices * kSlice;
  u32 table, x, codes, barriers;

  __device__ __forceinline__ PanelPlace4bit() {
    table = shared_address(panel_shared());
    x = (table + 256 * kPairPitch + 1023) & ~1023u;
    codes = x + kStages * kStage;
    barriers = codes + kPanelWarps * kStepSlots * kStepBytes;
  }

  __device__ __forceinline__ u32 full(u32 stage) const { return barriers + stage * 8; }
  __device__ __forceinline__ u32 empty(u32 stage) const { return barriers + (kStages + stage) * 8; }
  __device__ __forceinline__ u32 sums_barrier() const { return barriers + 2 * kStages * 8; }
};

// Which part of the product the block has.
struct PanelPart4bit {
  u32 rank;         // in the cluster
  u32 group;        // of the rows of x
  u32 tile;         // of the weight's rows
  u32 step, steps;  // from the first to behind the last one
  u32 slices;       // of these steps

  __device__ __forceinline__ explicit PanelPart4bit(const KwMatmul4bitPanelParams& p) {
    const u32 cluster = blockIdx.x / p.split;
    rank = blockIdx.x - cluster * p.split;
    tile = cluster / p.groups;
    group = cluster - tile * p.groups;
    const u32 all = (p.slices + kStepSlices - 1) / kStepSlices;
    step = rank * all / p.split;
    steps = (rank + 1) * all / p.split;
    const u32 end = steps * kStepSlices;
    slices = (end < p.slices ? end : p.slices) - step * kStepSlices;
  }
};

// Stages of x, in the order in which all warps read them.
template <u32 kCols>
struct PanelX4bit {
  using Place = PanelPlace4bit<kCols>;
  const Place place;
  const char* from;  // the block's first slice
  u32 slices;        // of the block; stages are counted from the first on

  __device__ __forceinline__ PanelX4bit(const KwMatmul4bitPanelParams& p, const PanelPart4bit& part)
      : from(p.x + (part.group * u64{p.slices} + part.step * kStepSlices) * Place::kSlice), slices(part.slices) {}

  __device__ __forceinline__ void init() const {
#pragma unroll 1
    for (u32 i = 0; i < kStages; ++i) {
      barrier_init(place.full(i), 1);
      barrier_init(place.empty(i), kPanelWarps);
    }
    barrier_init(place.sums_barrier(), 1);
    barriers_are_there();
  }

  // By one thread, where k goes so far. What lay there has been read by all.
  __device__ __forceinline__ void copy(u32 wanted) const {
    const u32 first = wanted * kStageSlices, slot = wanted % kStages;
    if (first >= slices) return;
    const u32 bytes = first + kStageSlices <= slices ? Place::kStage : Place::kSlice;
    if (wanted >= kStages) barrier_wait(place.empty(slot), (wanted / kStages - 1) & 1u);
    barrier_expect(place.full(slot), bytes);
    copy_bulk(place.x + slot * Place::kStage, from + first * u64{Place::kSlice}, bytes, place.full(slot));
  }

  __device__ __forceinline__ void begin() const {
    if (threadIdx.x != 0) return;
#pragma unroll 1
    for (u32 i = 0; i < kStages; ++i) copy(i);
  }

  // The right matrix that begins with the stage, now that it is there.
  __device__ __forceinline__ u32 wait(u32 stage) const {
    barrier_wait(place.full(stage % kStages), stage / kStages & 1u);
    return group_matrix(place.x + stage % kStages * Place::kStage);
  }

  // The warp has read a stage. What it and the others have left before, and those have had time for, is copied to, by
  // each warp in turn.
  __device__ __forceinline__ void leave(u32 left) const {
    if (threadIdx.x % kWarp == 0) barrier_arrive(place.empty(left % kStages));
    if (threadIdx.x == left % kPanelWarps * kWarp && left > 0) copy(left + kStages - 1);
    __syncwarp();
  }
};

// Codes and scales of a warp's 16 rows. kQuantized: the scales are.
template <bool kQuantized>
struct PanelCodes4bit {
  const KwMatmul4bitPanelParams& p;
  const char* from;  // the tile's first row
  u32 last_row;      // of the weight, from there on, in bytes: rows past it are it, and nobody stores them
  u32 copied_row;    // the lane's first of four rows to copy, from there on, in bytes
  u32 copied_part;   // and which bytes of a step's it copies of each
  u32 scaled[2];     // of the two rows whose scales the lane reads: its slice of a step, counted through the weight
  u32 slot;          // that is read, from the ring's beginning
  u32 codes_to, codes_at;    // in the warp's ring: of the lane's first copy, and of its row of the first matrices
  u32 scales_to, scales_at;  // of those of the warp, which lie between the pairs
  u32 next[2];               // scales, or their codes
  float offset;

  template <u32 kCols>
  __device__ __forceinline__ PanelCodes4bit(const KwMatmul4bitPanelParams& p, const PanelPlace4bit<kCols>& place,
                                            u32 tile)
      : p(p), from(p.packed + tile * u64{kPanelRows} * row_bytes()), slot(0) {
    const u32 warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
    copied_row = computed_once((warp * 16 + lane / 8) * row_bytes());
    copied_part = computed_once(lane % 8 * 16);
    last_row = within(tile, kPanelRows - 1) * row_bytes();
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
      const u32 row = tile * kPanelRows + within(tile, warp * 16 + lane / 4 + i * 8);
      scaled[i] = computed_once(row * p.slices + lane % 4);
    }
    const u32 ring = place.codes + warp * (kStepSlots * kStepBytes);
    codes_to = computed_once(ring + lane / 8 * 128 + ((lane ^ lane / 8) & 7u) * 16);
    codes_at = computed_once(ring + (lane & 15u) * 128 + ((lane / 16 ^ lane) & 7u) * 16);
    const u32 scales = place.table + warp * (4 * kPairPitch) + kPairBytes;
    scales_to = computed_once(scales + lane * 4);
    scales_at = computed_once(scales + lane / 4 * 16);
  }

  __device__ __forceinline__ u32 row_bytes() const { return p.slices * 32; }

  // A row of a tile. Those past the weight's last one are the last one, which nobody stores.
  __device__ __forceinline__ u32 within(u32 tile, u32 row) const {
    const u32 last = p.n - 1 - tile * kPanelRows;
    return row < last ? row : last;
  }

  // Past the end of k nothing is copied, and what lies there used by nobody.
  __device__ __forceinline__ void copy(u32 step, u32 to) const {
    if (step * kStepSlices + copied_part / 32 >= p.slices) return;
    const char* step_from = from + step * u64{kStepSlices * 32} + copied_part;
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      const u32 row = copied_row + i * 4 * row_bytes();
      // The rows four further on have the same place modulo eight, but for its bit 2.
      copy_async(((codes_to + to) ^ (i % 2 * 64)) + i * 512, step_from + (row < last_row ? row : last_row), 16);
    }
  }

  // The block of one of the lane's scales. Past the end of k it is another one, which nobody uses.
  __device__ __forceinline__ u32 block(u32 step, u32 i) const {
    const u32 slice = scaled[i] + step * kStepSlices, last = p.n * p.slices - 1;
    return (slice < last ? slice : last) >> (p.scales.block_log2 - 6);
  }

  __device__ __forceinline__ void fetch_scales(u32 step) {
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
      if constexpr (kQuantized) {
        load<1>(p.scales.codes + block(step, i), &next[i]);
      } else {
        load<4>(p.scales.absmax + block(step, i) * u64{4}, &next[i]);
      }
    }
  }

  // Rounded after each step, as in four_bit_scales.cuh.
  __device__ __forceinline__ u32 scale(u32 step, u32 i) const {
    if constexpr (!kQuantized) return next[i];
    const float by = load_float(p.scales.absmax2 + (block(step, i) >> kScalesLog2) * u64{4});
    return bits_of_float(add_rounded(multiply_rounded(load_float(p.scales.map + next[i] * u64{4}), by), offset));
  }

  // To where they are read in that step; steps take turns at two places.
  __device__ __forceinline__ void store_scales(u32 step) const {
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
      const u32 word[1] = {scale(step, i)};
      store_shared<4>(scales_to + step % 2 * (2 * kPairPitch) + i * kPairPitch, word);
    }
  }

  // Of the lane's group's row, and of the eighth after it.
  __device__ __forceinline__ void load_scales(u32 step, u32 slice, float (&by)[2]) const {
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
      u32 word[1];
      load_shared<4>(scales_at + step % 2 * (2 * kPairPitch) + slice * 4 + i * kPairPitch, word);
      by[i] = float_of_bits(word[0]);
    }
  }

  // Of 32 of k both rows, then of the next 32.
  __device__ __forceinline__ void load_codes(u32 slice, u32 (&codes)[4]) const {
    load_matrices((codes_at + slot) ^ (slice * 32), codes);
  }

  __device__ __forceinline__ void begin(u32 step, u32 steps) {
    if constexpr (kQuantized) offset = load_float(p.scales.offset);
    fetch_scales(step);
#pragma unroll 1
    for (u32 i = 0; i + 1 < kStepSlots; ++i) {
      if (step + i < steps) copy(step + i, i * kStepBytes);
      copies_commit();
    }
    store_scales(step);
    fetch_scales(step + 1);
    slot = (kStepSlots - 1) * kStepBytes;
  }

  // Goes on to the step whose codes are there by now.
  __device__ __forceinline__ void advance() {
    copies_wait<kStepSlots - 2>();
    __syncwarp();
    slot = next_slot();
  }

  __device__ __forceinline__ u32 next_slot() const {
    return slot == (kStepSlots - 1) * kStepBytes ? 0 : slot + kStepBytes;
  }

  // At any time in a step: what is for later ones.
  __device__ __forceinline__ void fetch(u32 step, u32 steps) {
    static_assert(kStepSlots == 3, "the slot before this one is the one after the next");
    store_scales(step + 1);
    fetch_scales(step + 2);
    if (step + 2 < steps) copy(step + 2, slot == 0 ? 2 * kStepBytes : slot - kStepBytes);
    copies_commit();
  }
};

}  // namespace kw
