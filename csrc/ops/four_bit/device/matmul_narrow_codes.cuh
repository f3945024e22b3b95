// SPDX-License-Identifier: MIT
// The weight on its way to the warps of matmul_narrow.cuh: codes and scales, which each warp copies for itself into
// a ring of slots in shared memory. By tensor maps (TMA), issued by one lane: copies by all lanes (cp.async) go through
// the pipe that looks codes up, line by line, and scales lie in as many lines as codes.
#pragma once

#include "device/ptx/bulk.cuh"
#include "device/ptx/matrix.cuh"
#include "device/ptx/tma.cuh"
#include "ops/four_bit/device/matmul_narrow_shared.cuh"
#include "ops/four_bit/device/scales.cuh"

namespace kw {

// Codes and scales of a warp's 16 rows. kBoxed: scales, too, are copied by TMA. Others are loaded and made.
template <bool kBoxed>
struct NarrowCodes4bit {
  const KwMatmul4bitNarrowParams& p;
  u32 first_row;  // of the warp, in the weight
  u32 barrier;    // of the warp's first slot
  u32 phase;      // of that of the slot that is read
  u32 scaled[2];  // of the two rows whose scales the lane reads: its slice of a step, counted through the weight
  u32 slot;       // that is read, from the ring's beginning
  u32 stride;     // from a step to the warp's next
  u32 codes_to, codes_at;   // the warp's ring, and in it the lane's row of the first matrices
  u32 boxes_to, scales_to;  // the scales of the first slot, between the pairs: the warp's and the lane's
  u32 next[2];              // codes of scales, on their way
  float offset[2];          // of the parts that those rows are in

  template <u32 kCols>
  __device__ __forceinline__ NarrowCodes4bit(const KwMatmul4bitNarrowParams& p, const NarrowShared4bit<kCols>& shared,
                                             const NarrowPart4bit& part)
      : p(p), phase(1), slot(0), stride(part.stride()) {
    const u32 warp = same_in_warp(threadIdx.x / kWarp), lane = threadIdx.x % kWarp;
    const u32 first = part.first_row < p.n ? part.first_row : p.n - 1, last = p.n - 1 - first;
    first_row = part.first_row + part.row;
    barrier = shared.codes_barrier(warp);
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
      const u32 row = part.row + lane / 4 + i * 8;
      scaled[i] = computed_once((first + (row < last ? row : last)) * p.slices + lane % 4);
    }
    codes_to = shared.codes + warp * (kStepSlots * kStepBytes);
    codes_at = computed_once(codes_to + (lane & 15u) * 128 + ((lane / 16 ^ lane) & 7u) * 16);
    boxes_to = shared.table + warp * (2 * kStepSlots * kPairPitch) + kPairBytes;
    scales_to = computed_once(boxes_to + lane * 4);
  }

  // Barriers of the slots, at which the warp alone waits.
  __device__ __forceinline__ void init() const {
    if (one_lane()) {
#pragma unroll
      for (u32 i = 0; i < kStepSlots; ++i) barrier_init(barrier + i * 8, 1);
      barriers_are_there();
    }
    __syncwarp();
  }

  // A step to a slot. Of rows past the last one, and past the end of k, boxes are zeros.
  __device__ __forceinline__ void copy(u32 step, u32 to) const {
    if (!one_lane()) return;
    const u32 full = barrier + to / (kStepBytes / 8);
    barrier_expect(full, kStepBytes + (kBoxed ? 2 * kScalesBox : 0));
    tma_load(codes_to + to, &p.codes, {step * (kStepSlices * 32), first_row}, full);
    if (!kBoxed) return;
    tma_load(boxes_to + scales_of(to), &p.float_scales, {step * kStepSlices, first_row}, full);
    tma_load(boxes_to + scales_of(to) + kPairPitch, &p.float_scales, {step * kStepSlices, first_row + 8}, full);
  }

  // Has L2 bring a step's codes.
  __device__ __forceinline__ void prefetch(u32 step) const {
    if (one_lane()) tma_prefetch(&p.codes, {step * (kStepSlices * 32), first_row});
  }

  // The first slot after the last step, which is looked up all the same.
  __device__ __forceinline__ void clear(u32 to) const {
    const u32 word[4] = {};
#pragma unroll
    for (u32 i = 0; i < 4; ++i) store_shared<16>(codes_to + to + threadIdx.x % kWarp * 16 + i * 512, word);
  }

  // Where a slot's scales are, from the first slot's on.
  __device__ __forceinline__ u32 scales_of(u32 to) const { return to / (kStepBytes / (2 * kPairPitch)); }

  // The block of one of the lane's scales. Past the end of k it is another one, which nobody uses.
  __device__ __forceinline__ u32 block(u32 step, u32 i) const {
    const u32 slice = scaled[i] + step * kStepSlices, last = p.n * p.slices - 1;
    return (slice < last ? slice : last) >> (p.scales.block_log2 - 6);
  }

  __device__ __forceinline__ void fetch_scales(u32 step) {
    if (!kBoxed) {
      load<1>(p.scales.codes + block(step, 0), &next[0]);
      load<1>(p.scales.codes + block(step, 1), &next[1]);
    }
  }

  // Rounded after each step, as in scales.cuh. Those that are floats as they came are `by`: the rest is worked
  // out all the same, since a question would keep the loads from what a warp does meanwhile.
  __device__ __forceinline__ void store_scales(u32 step, u32 to) const {
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
      const float by = load_float(p.scales.absmax2 + (block(step, i) >> p.scales_log2) * u64{4});
      const float value = load_float(p.scales.map + (next[i] & p.code_mask) * u64{4});
      const float scale = add_rounded(multiply_rounded(value, by), offset[i]);
      const u32 word[1] = {bits_of_float(p.code_mask != 0 ? scale : by)};
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
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
      const u32 row = scaled[i] - threadIdx.x % 4;
      if (!kBoxed) offset[i] = offset_of(p.scales, row >> (p.scales.block_log2 - 6));
    }
    fetch_scales(step);
#pragma unroll 1
    for (u32 i = 0; i < kStepSlots; ++i) {
      if (step + i * stride >= steps) {
        clear(i * kStepBytes);
      } else if (i + 1 < kStepSlots) {
        copy(step + i * stride, i * kStepBytes);
      }
    }
    slot = (kStepSlots - 1) * kStepBytes;
  }

  // And has what is left to do once that has had its time.
  __device__ __forceinline__ void begun(u32 step) {
    if (!kBoxed) store_scales(step, 0);
    fetch_scales(step + stride);
  }

  // Goes on to the step whose codes are there by now.
  __device__ __forceinline__ void advance(bool exists) {
    __syncwarp();
    slot = next_slot();
    if (slot == 0) phase ^= 1;
    if (exists) barrier_wait(barrier + slot / (kStepBytes / 8), phase);
  }

  __device__ __forceinline__ u32 next_slot() const {
    return slot == (kStepSlots - 1) * kStepBytes ? 0 : slot + kStepBytes;
  }

  // At any time in a step: what is for later ones.
  __device__ __forceinline__ void fetch(u32 step, u32 steps) {
    if (!kBoxed) store_scales(step + stride, next_slot());
    fetch_scales(step + 2 * stride);
    const u32 last = step + (kStepSlots - 1) * stride;  // in the slot before this one
    if (last < steps) copy(last, slot == 0 ? (kStepSlots - 1) * kStepBytes : slot - kStepBytes);
  }
};

}  // namespace kw
