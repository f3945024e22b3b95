// SPDX-License-Identifier: MIT
// How the warps of a block of matmul_gemv.cuh add up what they have of the same units, always in the same order,
// through shared memory after the table. A lane gives kSums sums a unit; where rows are shared by ranges of k, those of
// one place in each group are of use.
#pragma once

#include "device/element.cuh"
#include "ops/four_bit/device/matmul_gemv_table.cuh"
#include "ops/four_bit/device/scales.cuh"
#include "ops/four_bit/geometry.h"

namespace kw {

template <class T, u32 kRanges, u32 kSums>
struct GemvSums4bit {
  static constexpr u32 kSideBySide = kRanges > 0 ? kRanges : 1;
  static constexpr u32 kUnitRows = 16 / kSideBySide;
  static constexpr u32 kPlaces = 4 / kSideBySide;  // that differ by more than their range
  static constexpr u32 kRows = 8 / kSideBySide;    // of groups
  static constexpr u32 kScalesBytes = kRanges == 4 ? 2 * kSharedScales << kGemvWarpsLog2 : 0;
  static constexpr u32 kUnitBytes = kSums * kPlaces * 32;  // of a warp

  // Whether the lane has sums to give, and where those of this number go: the table begins at `shared`, and of each of
  // a block's units the warps along k have a number.
  static __device__ __forceinline__ bool gives() {
    return threadIdx.x % 4 % kSideBySide == threadIdx.x % kWarp / 4 % kSideBySide;
  }
  static __device__ __forceinline__ u32 lane_at(u32 shared, u32 number) {
    return shared + kTableBytes + kScalesBytes + number * kUnitBytes + threadIdx.x % 4 / kSideBySide * 32 +
           threadIdx.x % kWarp / 4 * 4;
  }

  static __device__ __forceinline__ void give(const float (&sum)[kSums], u32 to) {
#pragma unroll
    for (u32 i = 0; i < kSums; ++i) {
      const u32 word[1] = {bits_of_float(sum[i])};
      store_shared<4>(to + i * (kPlaces * 32), word);
    }
  }

  // Of the ranges of a row.
  static __device__ __forceinline__ float load_sum(u32 from) {
    u32 word[kSideBySide];
    load_shared<kSideBySide * 4>(from, word);
    float total = 0.0f;
#pragma unroll
    for (u32 i = 0; i < kSideBySide; ++i) total += float_of_bits(word[i]);
    return total;
  }

  // Of a unit's warps along k, each of which has the wanted sum at this place of its own. With one row of x all are
  // loaded at once: nothing is left to do meanwhile. With more than four the address is worked out anew for each warp:
  // compilers unroll the loop otherwise, and 9 to 16 rows took 1.5 % more.
  static __device__ __forceinline__ float load_total(u32 shared, u32 unit, u32 place, u32 warps_log2) {
    const u32 warps = 1u << warps_log2;
    const u32 from = shared + kTableBytes + kScalesBytes + (unit << warps_log2) * kUnitBytes + place;
    float total = 0.0f;
    if constexpr (kRanges == 4) {
      constexpr u32 kMost = 1u << kGemvWarpsLog2;
      u32 word[kMost][4];
#pragma unroll
      for (u32 warp = 0; warp < kMost; ++warp)
        load_shared<16>(from + (warp < warps ? warp * kUnitBytes : 0), word[warp]);
#pragma unroll
      for (u32 warp = 0; warp < kMost; ++warp) {
        float of_warp = 0.0f;
#pragma unroll
        for (u32 i = 0; i < 4; ++i) of_warp += float_of_bits(word[warp][i]);
        total += warp < warps ? of_warp : 0.0f;
      }
    } else if constexpr (kRanges > 0) {
      for (u32 warp = 0; warp < warps; ++warp) total += load_sum(from + warp * kUnitBytes);
    } else {
      for (u32 warp = 0; warp < warps; ++warp) {
        const u32 begin = shared_address(dynamic_shared()) + kTableBytes + kScalesBytes;
        total += load_sum(begin + (unit * warps + warp) * kUnitBytes + place);
      }
    }
    return total;
  }

  static __device__ __forceinline__ void store_totals(const KwMatmul4bitParams& p, u32 shared, u32 unit, u32 units) {
    for (u32 i = threadIdx.x; i < units * (kSums * kPlaces * kRows); i += kGemvThreads) {
      const u32 row = i % kRows, place = i / kRows % kPlaces, which = i / (kRows * kPlaces) % kSums;
      const u32 of_units = i / (kRows * kPlaces * kSums);
      const u32 column = kRanges > 0 ? place : which / 4 * 8 + place * 2 + which % 2;
      const u32 half = kRanges > 0 ? which : which / 2 % 2;
      const i64 n = (static_cast<i64>(unit) + of_units) * kUnitRows + half * (kUnitRows / 2) + row;
      if (column >= p.m || n >= p.n) continue;
      const u32 from = (which * kPlaces + place) * 32 + row * (kSideBySide * 4);
      float total[1] = {load_total(shared, of_units, from, p.k_warps_log2)};
      total[0] *= p.by;
      if (p.bias != nullptr) total[0] += load_element<T>(p.bias + n * 2);
      Unit<T, 2> result;
      result.pack(total);
      store<2>(p.y + column * p.y_pitch + n * 2, result.word);
    }
  }
};

}  // namespace kw
