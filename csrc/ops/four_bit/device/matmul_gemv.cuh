// SPDX-License-Identifier: MIT
// The product with a 4-bit weight on tensor cores for up to 16 rows of x, which are the columns here: what a decoding
// model asks for. Memory decides, and what a multiprocessor's L1 and shared memory can look up; no warp waits for
// another but to add up what they have.
//
// A unit is 16 rows of the weight or fewer, a step 128 of k or more (matmul_gemv_weight.cuh). A warp goes through
// four units at once: while it works on the codes of one half, those of the other half are on their way. The warps of a
// block are side by side along units and along k.
//
// A byte of two codes is looked up as the pair of their values, rounded to the type of x; the sums of a scale's
// products are float32 and are scaled then, so that a scale is never rounded. The order of k is that in which lanes
// find codes in memory, and x is read alike. Rows of x that leave columns free share the product with other k of
// themselves: a column has x of one row, one range and one half of it, of 64, and zeros for the lanes that have other
// k, so that each column is a sum of one scale.
#pragma once

#include "device/ptx/hints.cuh"
#include "device/ptx/sync.cuh"
#include "ops/four_bit/device/matmul_gemv_sums.cuh"
#include "ops/four_bit/device/matmul_gemv_weight.cuh"

namespace kw {

// Which of a block's units and of the steps of k are the warp's.
struct GemvShare4bit {
  const u32 row_warps_log2, row_warp, k_warp, k_warps, steps;

  __device__ __forceinline__ GemvShare4bit(const KwMatmul4bitParams& p, u32 warp)
      : row_warps_log2(kGemvWarpsLog2 - p.k_warps_log2),
        row_warp(warp & ((1u << row_warps_log2) - 1)),
        k_warp(warp >> row_warps_log2),
        k_warps(1u << p.k_warps_log2),
        steps(p.steps) {}

  __device__ __forceinline__ u32 slots(u32 units) const {
    return (units + (1u << row_warps_log2) - 1 - row_warp) >> row_warps_log2;
  }

  __device__ __forceinline__ u32 unit(u32 slot) const { return (slot << row_warps_log2) + row_warp; }
};

// kCols: rows of x at most.
template <class T, u32 kCols, u32 kRanges>
struct Gemv4bit {
  static constexpr bool kSpread = kRanges > 0;
  static constexpr u32 kParts = kSpread ? 1 : kCols / 8;
  static constexpr u32 kSums = kSpread ? 2 : kParts * 4;  // a lane and unit
  static constexpr u32 kUnits = 4;  // at once: half of them are on their way while the others are used
  // Whether to ask if there is a half's second unit: where units are large a block may have but few. Without asking a
  // warp works on both at a time, and where there is none on some other's rows for nothing.
  static constexpr bool kAsks = kCols == 4 || kCols == 8;
  // Whether zeros of x are written before it is asked for, not chosen when it is there, and the values of scales' codes
  // sent for before codes are, not loaded behind them. For two rows of x that was slower.
  static constexpr bool kWaitsLess = kRanges == 4;
  // Whether a warp's first x is asked for before codes, not behind them: all blocks want the same x at once.
  static constexpr bool kXFirst = kRanges > 1;
  // Whether it is worked out where a warp's later units begin while the first are on their way, not when these are
  // there.
  static constexpr bool kAims = kRanges == 4;
  using Weight = GemvWeight4bit<kRanges>;
  using Sums = GemvSums4bit<T, kRanges, kSums>;
  const KwMatmul4bitParams& p;
  Weight weight;
  const GemvShare4bit share;
  u32 first_unit, slots;  // of those whose sums the block adds up at once: how many are the warp's
  u32 slot, step;         // where it is: the first of those that it has at once
  u32 row[kUnits][2];     // where the lane's rows of those begin whose codes are fetched
  GemvSlot4bit half[2][2];
  u32 right[kParts][16];
  float sum[kUnits][kSums];
  const char* x[kParts];
  bool used[kParts];
  GemvFrom4bit late;  // kAims: the second half's

  __device__ __forceinline__ explicit Gemv4bit(const KwMatmul4bitParams& p)
      : p(p), weight(p), share(p, bits_of_float(shuffle_from(float_of_bits(threadIdx.x / kWarp), 0))) {
    const u32 group = threadIdx.x % kWarp / 4, place = threadIdx.x % 4, last = static_cast<u32>(p.m) - 1;
#pragma unroll
    for (u32 part = 0; part < kParts; ++part) {
      const u32 wanted = kSpread ? group / (2 * Weight::kSideBySide) : part * 8 + group;
      used[part] = wanted <= last && (!kSpread || place / 2 == group % 2);
      x[part] = p.x + (wanted < last ? wanted : last) * p.x_pitch + group / 2 % Weight::kSideBySide * 256 +
                place * (kSpread ? 64 : 32);
#pragma unroll
      for (u32 i = 0; i < 16; ++i) right[part][i] = 0;
    }
  }

  __device__ __forceinline__ void clear_x(u32 part) {
#pragma unroll
    for (u32 i = 0; i < 16; ++i) right[part][i] = 0;
  }

  // Of the lane's columns and the k that it has of a step; 0 where it has none.
  __device__ __forceinline__ void load_x(u32 step) {
    const u32 group = threadIdx.x % kWarp / 4;
    const bool inside = !kSpread || step * Weight::kStepBlocks + group / 2 % Weight::kSideBySide * 2 < p.row_blocks;
#pragma unroll
    for (u32 part = 0; part < kParts; ++part) {
      const char* from = x[part] + step * u64{Weight::kStepBlocks * 128};
      if (kWaitsLess && !inside) clear_x(part);
#pragma unroll
      for (u32 i = 0; i < 4; ++i) {
        if (used[part] && inside) load<16>(from + (kSpread ? i * 16 : i / 2 * 128 + i % 2 * 16), right[part] + i * 4);
      }
      if (!kWaitsLess && Weight::kSideBySide > 1 && !inside) clear_x(part);
    }
  }

  // As Weight::arrive().
  __device__ __forceinline__ void arrive_x() {
#pragma unroll
    for (u32 i = 0; i < kParts * 4; ++i) {
      right[i / 4][i % 4 * 4] = exclusive_or(right[i / 4][i % 4 * 4], weight.zero);
    }
  }

  // Four products of 16 of k: the half of what a lane has of its rows.
  __device__ __forceinline__ void multiply(const GemvSlot4bit& from, u32 half, float (&c)[kParts][4]) const {
#pragma unroll
    for (u32 i = half * 4; i < half * 4 + 4; ++i) {
      u32 left[4];
#pragma unroll
      for (u32 j = 0; j < 4; ++j) left[j] = weight.pair(from.codes[j % 2], i * 2 + j / 2);
#pragma unroll
      for (u32 part = 0; part < kParts; ++part)
        multiply_pairs<T>(c[part], left, right[part][i * 2], right[part][i * 2 + 1]);
    }
  }

  __device__ __forceinline__ void add(const GemvSlot4bit& from, u32 step, float (&to)[kSums]) const {
    float c[kParts][4] = {}, by[2][2];
    weight.scales(from, step, by);
    multiply(from, 0, c);
    if constexpr (kSpread) {
      multiply(from, 1, c);
#pragma unroll
      for (u32 i = 0; i < 4; ++i) to[i / 2] = fmaf(c[0][i], by[i / 2][i % 2], to[i / 2]);
    } else {
      add_scaled(c, by, 0, to);
      clear(c);
      multiply(from, 1, c);
      add_scaled(c, by, 1, to);
    }
  }

  static __device__ __forceinline__ void clear(float (&c)[kParts][4]) {
#pragma unroll
    for (u32 i = 0; i < kParts * 4; ++i) c[i / 4][i % 4] = 0.0f;
  }

  static __device__ __forceinline__ void add_scaled(const float (&c)[kParts][4], const float (&by)[2][2], u32 which,
                                                    float (&to)[kSums]) {
#pragma unroll
    for (u32 i = 0; i < kParts * 4; ++i) to[i] = fmaf(c[i / 4][i % 4], by[i / 2 % 2][which], to[i]);
  }

  __device__ __forceinline__ void clear_sums() {
#pragma unroll
    for (u32 i = 0; i < kUnits * kSums; ++i) sum[i / kSums][i % kSums] = 0.0f;
  }

  __device__ __forceinline__ u32 units_before(u32 block) const {
    return block * p.block_units + (block < p.more_units ? block : p.more_units);
  }

  __device__ __forceinline__ void begin_units(u32 from) {
#pragma unroll
    for (u32 i = 0; i < kUnits * 2; ++i) {
      row[i / 2][i % 2] = weight.row_at(first_unit + share.unit(from + i / 2), i % 2);
    }
  }

  __device__ __forceinline__ void give_sums() {
    const u32 number = (slot << kGemvWarpsLog2) + share.row_warp * share.k_warps + share.k_warp;
    const u32 to = Sums::lane_at(weight.shared, number);
    if (Sums::gives()) {
#pragma unroll
      for (u32 i = 0; i < kUnits; ++i) {
        if (slot + i < slots) Sums::give(sum[i], to + (i << kGemvWarpsLog2) * Sums::kUnitBytes);
      }
    }
    clear_sums();
  }

  // Of the two from this one on.
  __device__ __forceinline__ u32 units_from(u32 first) const {
    const u32 left = slots > first ? slots - first : 0;
    return left < 2 ? left : 2;
  }

  __device__ __forceinline__ void fetch(u32 which, u32 units, u32 step) {
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      if (kAsks && i / 2 >= units) continue;
      weight.fetch_codes(row[which * 2 + i / 2][i % 2] + step * Weight::kStepBlocks, i % 2, half[which][i / 2]);
    }
    fetch_scales(which, units, step);
  }

  // Where the row of a half begins whose scales the lane makes for its group.
  __device__ __forceinline__ u32 shared_row(u32 which) const {
    const u32 place = threadIdx.x % 4;
    const u32 even = place < 2 ? row[which * 2][0] : row[which * 2 + 1][0];
    const u32 odd = place < 2 ? row[which * 2][1] : row[which * 2 + 1][1];
    return place % 2 == 0 ? even : odd;
  }

  __device__ __forceinline__ void fetch_scales(u32 which, u32 units, u32 step) {
    if (step % Weight::kSteps != 0) return;
    if (Weight::kShares && !weight.plain)
      return weight.fetch_scales(shared_row(which) + step * Weight::kStepBlocks, 0, half[which][0]);
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      if (kAsks && i / 2 >= units) continue;
      weight.fetch_scales(row[which * 2 + i / 2][i % 2] + step * Weight::kStepBlocks, i % 2, half[which][i / 2]);
    }
  }

  // Where the second half's loads begin; those for quantized scales are worked out when they are sent for.
  __device__ __forceinline__ void aim_late(u32 step) {
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      const u32 at = weight.within(row[2 + i / 2][i % 2] + step * Weight::kStepBlocks);
      late.codes[i] = computed_here(weight.codes + at * u64{32});
      late.scales[i] = computed_here(p.scales.absmax + (at >> (p.scales.block_log2 - 6)) * u64{4});
    }
  }

  __device__ __forceinline__ void fetch_late(u32 units, u32 step) {
#pragma unroll
    for (u32 i = 0; i < 4; ++i) load_once(late.codes[i], half[1][i / 2].codes[i % 2]);
    if (!weight.plain) return fetch_scales(1, units, step);
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      u32(&scale)[2] = half[1][i / 2].scale[i % 2];
      if (weight.narrow) {
        load<8>(late.scales[i], scale);
      } else {
        load<4>(late.scales[i], scale);
      }
    }
  }

  // And no sooner than the sums are there that were worked on meanwhile.
  __device__ __forceinline__ void arrive(u32 which, u32 step) {
    const u32 units = (1 - which) * 2;
    const u32 zero = (bits_of_float(sum[units][0]) | bits_of_float(sum[units + 1][kSums - 1])) & weight.zero;
    if (Weight::kShares && !weight.plain) return weight.arrive_shared(which, shared_row(which), zero, half[which]);
#pragma unroll
    for (u32 i = 0; i < 2; ++i) weight.arrive(step % Weight::kSteps == 0, row[which * 2 + i], zero, half[which][i]);
  }

  __device__ __forceinline__ void add_half(u32 which, u32 units) {
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
      if (!kAsks || i < units) add(half[which][i], step, sum[which * 2 + i]);
    }
  }

  // What comes after a step: another one of the warp's, or the first one of the next units, or nothing.
  __device__ __forceinline__ u32 after(u32 step) const {
    return (step + 1) % Weight::kSteps != 0 ? step + 1 : step + 1 + (share.k_warps - 1) * Weight::kSteps;
  }

  // How many units of the first half have a step after this one, and which.
  __device__ __forceinline__ u32 prepare_next(u32& next) {
    next = after(step);
    if (next < share.steps) return units_from(slot);
    next = first_step();
    const u32 units = units_from(slot + kUnits);
    if (units > 0) begin_units(slot + kUnits);
    return units;
  }

  __device__ __forceinline__ void end_step() {
    if (after(step) < share.steps) return;
    give_sums();
    slot += kUnits;
  }

  __device__ __forceinline__ bool work_by_halves() {
    const u32 second = units_from(slot + 2);
    if (second > 0) kAims ? fetch_late(second, step) : fetch(1, second, step);
    add_half(0, units_from(slot));
    arrive(1, step);
    u32 next;
    const u32 first = prepare_next(next);
    if (first > 0) fetch(0, first, next);
    if (second > 0) add_half(1, second);
    end_step();
    if (first == 0) return false;
    if (Weight::kSteps > 1 || next != step) load_x(next);  // x of a step stays where each warp has but one
    begin_step(next);
    return true;
  }

  // Waits for what its first half needs.
  __device__ __forceinline__ void begin_step(u32 next) {
    if constexpr (kAims) aim_late(next);
    arrive(0, next);
    arrive_x();
    step = next;
  }

  __device__ __forceinline__ u32 first_step() const { return share.k_warp * Weight::kSteps; }

  __device__ __forceinline__ void begin_group(u32 group, u32 units) {
    first_unit = group;
    slots = share.slots(units);
    slot = 0;
    step = first_step();
    if (busy()) begin_units(0);
  }

  __device__ __forceinline__ void fetch_first() {
    if (!busy()) return;
    if constexpr (kXFirst) load_x(step);
    fetch(0, units_from(0), step);
    if constexpr (!kXFirst) load_x(step);
  }

  // Whether the warp has any work: there may be fewer units or steps than warps.
  __device__ __forceinline__ bool busy() const { return slots > 0 && step < share.steps; }

  __device__ __forceinline__ void work() {
    clear_sums();
    if (busy()) {
      begin_step(step);
      while (work_by_halves()) {
      }
    } else {
      for (; slot < slots; slot += kUnits) give_sums();
    }
  }

  // Has L2 bring a row of x, which all blocks will ask for at once: each block some of its lines, since it is slower
  // where all tell it of all.
  __device__ __forceinline__ void prefetch_x() const {
    if (threadIdx.x / kWarp != 2) return;
    const u32 line = blockIdx.x + threadIdx.x % kWarp * gridDim.x;
    if (line < p.row_blocks) prefetch(p.x + line * 128);
  }

  // The kernel before this one may still be at work until the wait: all that can be worked out by then is.
  __device__ __forceinline__ void run() {
    allow_next_kernel();
    if constexpr (kRanges > 1) prefetch_x();
    fill_table<T>(p);
    const u32 first = units_before(blockIdx.x), end = units_before(blockIdx.x + 1);
    if constexpr (kRanges > 1) weight.prefetch_codes(first, end);
    for (u32 group = first; group < end; group += p.group_units) {
      const u32 units = end - group < p.group_units ? end - group : p.group_units;
      begin_group(group, units);
      if (group == first) wait_for_previous_kernel();
      if (kWaitsLess && group == first && !weight.plain) send_for_map(p);
      fetch_first();
      if (group == first && !weight.plain) fill_map<kWaitsLess>(p);
      __syncthreads();
      work();
      __syncthreads();
      Sums::store_totals(p, weight.shared, group, units);
    }
  }
};

}  // namespace kw
