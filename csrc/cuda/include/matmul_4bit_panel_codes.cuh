// SPDX-License-Identifier: MIT
// The weight on its way to the warps of matmul_4bit_panel.cuh: codes and scales, which each warp copies for itself into
// a ring of slots in shared memory.
#pragma once

#include "four_bit_scales.cuh"
#include "matmul_4bit_panel_place.cuh"
#include "ptx_async.cuh"
#include "ptx_matrix.cuh"

namespace kw {

// Codes and scales of a warp's 16 rows. kQuantized: the scales are.
template <bool kQuantized>
struct PanelCodes4bit {
  const KwMatmul4bitPanelParams& p;
  const char* from;  // the block's first row
  u32 last_row;      // of the weight, from there on, in bytes: rows past it are it, and nobody stores them
  u32 copied_row;    // the lane's first of four rows to copy, from there on, in bytes
  u32 scaled[2];     // of the two rows whose scales the lane reads: its slice of a step, counted through the weight
  u32 slot;          // that is read, from the ring's beginning
  u32 stride;        // from a step to the warp's next
  u32 codes_to, codes_at;  // in the warp's ring: of the lane's first copy, and of its row of the first matrices
  u32 scales_to;           // of the lane's scales in the first slot, between the pairs
  u32 next[2];             // kQuantized: codes of scales, on their way
  float offset;

  template <u32 kCols>
  __device__ __forceinline__ PanelCodes4bit(const KwMatmul4bitPanelParams& p, const PanelPlace4bit<kCols>& place,
                                            const PanelPart4bit& part)
      : p(p), slot(0), stride(part.stride()) {
    const u32 warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
    const u32 first = part.first_row < p.n ? part.first_row : p.n - 1, last = p.n - 1 - first;
    from = p.packed + first * u64{row_bytes()};
    copied_row = computed_once((part.row + lane / 8) * row_bytes());
    last_row = (last < kSidesRows ? last : kSidesRows) * row_bytes();
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
      const u32 row = part.row + lane / 4 + i * 8;
      scaled[i] = computed_once((first + (row < last ? row : last)) * p.slices + lane % 4);
    }
    const u32 ring = place.codes + warp * (kStepSlots * kStepBytes);
    codes_to = computed_once(ring + lane / 8 * 128 + ((lane ^ lane / 8) & 7u) * 16);
    codes_at = computed_once(ring + (lane & 15u) * 128 + ((lane / 16 ^ lane) & 7u) * 16);
    const u32 scales = place.table + warp * (2 * kStepSlots * kPairPitch) + kPairBytes;
    scales_to = computed_once(scales + lane * 4);
  }

  __device__ __forceinline__ u32 row_bytes() const { return p.slices * 32; }

  // A step to a slot. Scales too are copied, not loaded: a warp that waits for a load waits for all that were sent for
  // after it. Past the end of k no codes are copied, and what lies there is used by nobody.
  __device__ __forceinline__ void copy(u32 step, u32 to) const {
    if constexpr (!kQuantized) {
      const u32 scales = scales_to + scales_of(to);
      copy_word_async(scales, p.scales.absmax + block(step, 0) * u64{4});
      copy_word_async(scales + kPairPitch, p.scales.absmax + block(step, 1) * u64{4});
    }
    const u32 copied_part = computed_here(threadIdx.x) % 8 * 16;  // of what a row has of a step
    if (step * kStepSlices + copied_part / 32 >= p.slices) return;
    const char* step_from = from + step * u64{kStepSlices * 32} + copied_part;
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      const u32 row = copied_row + i * 4 * row_bytes();
      // The rows four further on have the same place modulo eight, but for its bit 2.
      copy_async(((codes_to + to) ^ (i % 2 * 64)) + i * 512, step_from + (row < last_row ? row : last_row), 16);
    }
  }

  // The first slot after the last step, which is looked up all the same.
  __device__ __forceinline__ void clear(u32 to) const {
    const u32 word[4] = {};
#pragma unroll
    for (u32 i = 0; i < 4; ++i) store_shared<16>(((codes_to + to) ^ (i % 2 * 64)) + i * 512, word);
  }

  // Where a slot's scales are, from the first slot's on.
  __device__ __forceinline__ u32 scales_of(u32 to) const { return to / (kStepBytes / (2 * kPairPitch)); }

  // The block of one of the lane's scales. Past the end of k it is another one, which nobody uses.
  __device__ __forceinline__ u32 block(u32 step, u32 i) const {
    const u32 slice = scaled[i] + step * kStepSlices, last = p.n * p.slices - 1;
    return (slice < last ? slice : last) >> (p.scales.block_log2 - 6);
  }

  __device__ __forceinline__ void fetch_scales(u32 step) {
    if constexpr (kQuantized) {
      load<1>(p.scales.codes + block(step, 0), &next[0]);
      load<1>(p.scales.codes + block(step, 1), &next[1]);
    }
  }

  // Rounded after each step, as in four_bit_scales.cuh.
  __device__ __forceinline__ void store_scales(u32 step, u32 to) const {
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
      const float by = load_float(p.scales.absmax2 + (block(step, i) >> kScalesLog2) * u64{4});
      const float scale = add_rounded(multiply_rounded(load_float(p.scales.map + next[i] * u64{4}), by), offset);
      const u32 word[1] = {bits_of_float(scale)};
      store_shared<4>(scales_to + scales_of(to) + i * kPairPitch, word);
    }
  }

  // Of the lane's group's row, and of the eighth after it.
  __device__ __forceinline__ void load_scales(u32 slice, float (&by)[2]) const {
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
      u32 word[1];
      load_shared<4>((scales_to & ~15u) + scales_of(slot) + slice * 4 + i * kPairPitch, word);
      by[i] = float_of_bits(word[0]);
    }
  }

  // Those of a whole step.
  __device__ __forceinline__ void load_scales(float (&by)[kStepSlices][2]) const {
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
      u32 word[kStepSlices];
      load_shared<16>((scales_to & ~15u) + scales_of(slot) + i * kPairPitch, word);
#pragma unroll
      for (u32 slice = 0; slice < kStepSlices; ++slice) by[slice][i] = float_of_bits(word[slice]);
    }
  }

  // Of 32 of k both rows, then of the next 32.
  __device__ __forceinline__ void load_codes(u32 slice, u32 (&codes)[4]) const {
    load_matrices((codes_at + slot) ^ (slice * 32), codes);
  }

  // Sends for the first steps.
  __device__ __forceinline__ void begin(u32 step, u32 steps) {
    if constexpr (kQuantized) offset = load_float(p.scales.offset);
    fetch_scales(step);
#pragma unroll 1
    for (u32 i = 0; i < kStepSlots; ++i) {
      if (step + i * stride >= steps) {
        clear(i * kStepBytes);
      } else if (i + 1 < kStepSlots) {
        copy(step + i * stride, i * kStepBytes);
      }
      if (i + 1 < kStepSlots) copies_commit();
    }
    slot = (kStepSlots - 1) * kStepBytes;
  }

  // And has what is left to do once that has had its time.
  __device__ __forceinline__ void begun(u32 step) {
    if constexpr (kQuantized) store_scales(step, 0);
    fetch_scales(step + stride);
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
    if constexpr (kQuantized) store_scales(step + stride, next_slot());
    fetch_scales(step + 2 * stride);
    const u32 last = step + (kStepSlots - 1) * stride;  // in the slot before this one
    if (last < steps) copy(last, slot == 0 ? (kStepSlots - 1) * kStepBytes : slot - kStepBytes);
    copies_commit();
  }
};

}  // namespace kw
