// SPDX-License-Identifier: MIT
// In what geometry the kernels of csrc/ops/four_bit/device/matmul_gemv.cuh run: 1 and 2 rows of x, and up to 4, 8
// and 16.
#pragma once

#include "ops/four_bit/geometry.h"
#include "ops/four_bit/host/launch.h"

namespace kw::matmul_4bit_plan {

// As matmul_4bit.cu instantiates them.
struct GemvKind {
  int64_t cols;    // rows of x, at most
  int64_t ranges;  // of 128 of k that share a row of the weight
  int64_t sums;    // bytes that a warp has of a unit
  int64_t blocks;  // of a multiprocessor
  int64_t room;    // bytes of a block for sums, at most
  int64_t scales;  // and for scales that lanes make for each other
  int64_t least;   // units of a block, where all multiprocessors have one: a warp works on two even if one is there
};
constexpr GemvKind kGemvKinds[] = {{1, 4, 64, 2, 32768, 4096, 2},
                                   {2, 2, 128, 2, 32768, 0, 2},
                                   {4, 1, 256, 2, 32768, 0, 1},
                                   {8, 1, 512, 2, 32768, 0, 1},
                                   {16, 1, 1024, 1, 98304, 0, 1}};
constexpr int64_t kGemvBlock = 64;  // of k: what codes share a scale, at least
constexpr int64_t kGemvRange = 128;
constexpr int64_t kGemvScales = 512;  // whose scales a warp reads at once
constexpr int64_t kGemvTable = kTableBytes;
constexpr int64_t kGemvMost = kGemvKinds[4].cols;
constexpr int64_t kReserved = 1024;  // bytes of shared memory that a block costs besides its own

// Blocks share the weight's units evenly, and all of them are there at once.
struct Rows {
  int kind;
  int k_warps_log2;
  int64_t grid;
  int64_t units;
  int64_t steps;
  int64_t group;  // units of a block that are added up at once
  int64_t shared;
};

// Of what tiled() says yes to.
inline bool few_rows(const Matmul4bit& a) {
  if (a.m > kGemvMost || a.k % kGemvRange != 0 || a.blocksize < kGemvBlock) return false;
  return a.scales.absmax != nullptr ? aligned_to(a.scales.absmax, 8) : aligned_to(a.scales.codes, 2);
}

// How long a warp is at work that has so many units of the weight and steps of k. It has four units at once, two of
// which are on their way while it works on the others; one or two are waited for with nothing to do meanwhile, and take
// half as long again as two of four do. Three and more rows of x are counted without that, as they were timed.
inline int64_t gemv_warp_cost(int kind, int64_t units, int64_t steps) {
  if (kind > 1) return units * steps;
  constexpr int64_t kHalf = 2, kAlone = 3;
  const int64_t over = units % 4, last = over == 0 ? 0 : over <= 2 ? kAlone : 2 * kHalf;
  return (units / 4 * 2 * kHalf + last) * steps;
}

// How many of a block's warps share the steps of k, the others having other units: so that the busiest warp has as
// little to do as can be. Of equal ones the most, for which x is read least; with one and two rows of x four before
// eight, which took 1 to 4 % more unless eight have one step each, whose x they keep.
inline int gemv_k_warps(int kind, int64_t units, int64_t steps) {
  constexpr int kOrders[2][kGemvWarpsLog2 + 1] = {{2, 3, 1, 0}, {3, 2, 1, 0}};
  const bool keeps_x = kind == 0 && steps <= int64_t{1} << kGemvWarpsLog2;
  int best = kGemvWarpsLog2;
  int64_t least = -1;
  for (const int log2 : kOrders[kind > 1 || keeps_x]) {
    const int64_t cost = gemv_warp_cost(kind, ratio_up(units, int64_t{1} << (kGemvWarpsLog2 - log2)),
                                        ratio_up(steps, int64_t{1} << log2));
    if (least >= 0 && cost >= least) continue;
    best = log2;
    least = cost;
  }
  return best;
}

inline int64_t gemv_grid(int64_t units, int64_t least, int64_t multiprocessors, int64_t at_once) {
  const int64_t wanted = ratio_up(units, least), few = units < multiprocessors ? units : multiprocessors;
  const int64_t grid = wanted > few ? wanted : few;
  return grid < at_once ? grid : at_once;
}

inline Rows plan_gemv(const Matmul4bit& a, const Device& device) {
  Rows plan{};
  while (kGemvKinds[plan.kind].cols < a.m) ++plan.kind;
  const GemvKind& kind = kGemvKinds[plan.kind];
  plan.units = ratio_up(a.n, 16 / kind.ranges);
  plan.steps = ratio_up(a.k, kGemvRange * kind.ranges);
  const int64_t fixed = kGemvTable + kind.scales, left = device.shared_per_block - fixed,
                sums = left < kind.room ? left : kind.room;
  const int64_t blocks = device.shared_per_multiprocessor / (fixed + sums + kReserved);
  const int64_t at_once = device.multiprocessors * (blocks < kind.blocks ? 1 : kind.blocks);
  plan.grid = gemv_grid(plan.units, kind.least, device.multiprocessors, at_once);
  const int64_t units = ratio_up(plan.units, plan.grid);
  plan.k_warps_log2 = gemv_k_warps(plan.kind, units, ratio_up(a.k, kGemvScales));
  const int64_t room = sums / (kind.sums << plan.k_warps_log2);
  plan.group = units < room ? units : room;
  plan.shared = fixed + plan.group * (kind.sums << plan.k_warps_log2);
  return plan;
}

}  // namespace kw::matmul_4bit_plan
