// SPDX-License-Identifier: MIT
// In what geometry the kernels by warpgroups (csrc/ops/four_bit/device/matmul_narrow.cuh) run. Measured on an H200:
// benchmarks/ops/four_bit/notes/matmul_4bit-narrow-notes.md.
#pragma once

#include "ops/four_bit/host/matmul_gemv_plan.h"
#include "ops/four_bit/host/matmul_plan.h"

namespace kw::matmul_4bit_plan {

constexpr int kNarrowKinds = 4;
constexpr int64_t kNarrowCols[kNarrowKinds] = {8, 16, 32, 64};  // rows of x of a group
constexpr int64_t kNarrowStep = kStepSlices * kNarrowSlice;
constexpr uint32_t kNarrowThreads = kNarrowWarps * 32;
constexpr int64_t kNarrowTable = 256 * kPairPitch;
constexpr int64_t kNarrowCodes = kNarrowWarps * kStepSlots * kStepBytes;  // of the warps' rings
constexpr int64_t kNarrowBarriers = 2 * kNarrowStages + 1 + kNarrowWarps * kStepSlots;
constexpr int64_t kMostPieces = 4;
constexpr int64_t kNarrowSum = 4;                   // bytes
constexpr int64_t kMostSplit = 8;                   // blocks of a cluster that every GPU with clusters can place
constexpr int64_t kNarrowRowsLeast = 2;             // of x
constexpr int64_t kNarrowDepth = int64_t{1} << 24;  // bytes of a tile are counted in 32 bits
constexpr int64_t kMostUnits = int64_t{1} << 31;

struct Narrow {
  int kind = 0;
  int64_t groups = 0;  // of rows of x
  int64_t split = 0;   // blocks that share k
  int64_t pieces = 0;  // of k besides, by clusters that know nothing of each other
  int64_t sides = 0;   // blocks that have rows of the weight side by side; of one cluster, with those of k
  int64_t sums = 0;    // bytes of the workspace where the pieces' sums meet
  int64_t grid = 0;
  int64_t shared = 0;
  double cost = 0.0;
};

// Whether words of two elements of x begin on 4 bytes.
inline bool words_of_x(const Matmul4bit& a) { return aligned_to(a.x, 4) && (a.m == 1 || a.x_stride % 2 == 0); }

// Whether these sizes are for them; addresses are another matter (tiled()).
inline bool can_narrow(const Matmul4bit& a, uint32_t features) {
  constexpr uint32_t kNeeded = KW_FEATURE_WGMMA | KW_FEATURE_TMA | KW_FEATURE_CLUSTER;
  if ((features & kNeeded) != kNeeded || a.dtype == KW_FLOAT32 || a.n == 0 || a.k == 0) return false;
  if (a.k % kNarrowSlice != 0 || a.k >= kNarrowDepth || a.blocksize < int64_t{kNarrowSlice}) return false;
  if (a.n >= kMostUnits / a.k * kNarrowSlice || a.m >= kMostUnits / a.k) return false;
  return ratio_up(a.n, kNarrowRows) * ratio_up(a.m, kNarrowCols[2]) <= kMaxBlocks / kMostSplit;
}

// x in the order of these kernels, in whichever groups.
inline int64_t narrow_x_bytes(int64_t m, int64_t k) {
  int kind = 0;
  while (kind < kNarrowKinds - 1 && kNarrowCols[kind] < m) ++kind;
  const int64_t cols = kNarrowCols[kind];
  return ratio_up(m, cols) * cols * k * 2;
}

// How many blocks of clusters of this size run at once. A cluster lies within a part of the GPU of about 16
// multiprocessors; one part too few is counted, since not all have as many. An H200 has room for 132, 132, 117, 120,
// 110, 102, 105 and 120 blocks in clusters of 1 to 8.
inline int64_t at_once(const Device& device, int64_t split) {
  constexpr int64_t kTogether = 16;
  if (split <= 2) return device.multiprocessors / split * split;
  const int64_t parts = device.multiprocessors / kTogether - 1;
  return parts > 0 ? parts * (kTogether / split) * split : split;
}

// In microseconds of an H200: what a step takes by the rows of x of a group, and what a block takes besides.
inline double narrow_cost(const Narrow& plan, int64_t steps, const Device& device) {
  constexpr double kStep[kNarrowKinds] = {1.15, 1.32, 1.6, 2.2}, kBlock = 8.0, kSides = 0.93;
  constexpr double kSum = 2.3, kSumBytes = 2e6;  // a kernel more; of its sums, written and read, a microsecond
  const int64_t turns = ratio_up(plan.grid, at_once(device, plan.split * plan.sides));
  const double sums = static_cast<double>(plan.sums), meeting = plan.pieces > 1 ? kSum + sums / kSumBytes : 0.0;
  const double step = kStep[plan.kind] * (plan.sides > 1 ? kSides : 1.0);
  const int64_t shares = plan.split * plan.pieces;
  return static_cast<double>(turns) * (static_cast<double>(ratio_up(steps, shares)) * step + kBlock) + meeting;
}

// The best of one kind. Pieces are for weights whose tiles leave a GPU half idle: all their blocks run at once.
inline void plan_narrow(const Matmul4bit& a, const Device& device, int kind, Narrow* best) {
  const int64_t steps = ratio_up(a.k, kNarrowStep), groups = ratio_up(a.m, kNarrowCols[kind]);
  const int64_t most = device.multiprocessors < kMostSplit ? device.multiprocessors : kMostSplit;
  for (int64_t sides = 1; sides <= 2; ++sides) {
    const int64_t blocks = ratio_up(a.n, sides > 1 ? kSidesRows : kNarrowRows) * groups * sides;
    for (int64_t pieces = 1; pieces <= kMostPieces; ++pieces) {
      for (int64_t split = 1; split * sides <= most && split * pieces <= steps; ++split) {
        const int64_t grid = blocks * split * pieces;
        if (pieces > 1 && grid > device.multiprocessors) break;
        Narrow plan;
        plan.kind = kind;
        plan.groups = groups;
        plan.split = split;
        plan.pieces = pieces;
        plan.sides = sides;
        plan.sums = pieces > 1 ? pieces * a.m * a.n * kNarrowSum : 0;
        plan.grid = grid;
        plan.cost = narrow_cost(plan, steps, device);
        if (best->split == 0 || plan.cost < best->cost) *best = plan;
      }
    }
  }
}

inline Narrow plan_narrow(const Matmul4bit& a, const Device& device) {
  Narrow best;
  for (int kind = 0; kind < kNarrowKinds; ++kind) {
    // Groups of 32 may be better than one of 64.
    if (kind < kNarrowKinds - 2 ? a.m > kNarrowCols[kind] : a.m <= kNarrowCols[kind - 1]) continue;
    plan_narrow(a, device, kind, &best);
    if (kind < kNarrowKinds - 2) break;
  }
  const int64_t stage =
      narrow_stage_slices(static_cast<unsigned>(kNarrowCols[best.kind])) * kNarrowCols[best.kind] * kNarrowSlice * 2;
  best.shared = kNarrowTable + kNarrowAlignment + kNarrowStages * stage + kNarrowCodes + kNarrowBarriers * 8;
  return best;
}

inline int64_t narrow_workspace(const Matmul4bit& a, const Device& device) {
  return narrow_x_bytes(a.m, a.k) + plan_narrow(a, device).sums;
}

// The same of a call of up to 16 rows of x, which begins before the one ahead has ended.
inline double narrow_call_cost(const Narrow& plan) {
  constexpr double kOverlap[] = {2.5, 1.9};
  return plan.cost - kOverlap[plan.kind];
}

// The same of the kernels for few rows of x. With up to two a block's busiest warp decides, by the units and depths of
// 512 of k that it has, and two blocks of a multiprocessor are in each other's way. With more it is how many codes a
// multiprocessor looks up, and a warp waits for each round of four units at one depth but the first.
inline double gemv_cost(const Matmul4bit& a, const Device& device) {
  constexpr int kTwo = 1;  // of kGemvKinds
  constexpr double kCall = 1.82, kAlone = 1.04, kBeside = 1.31;
  constexpr int64_t kRound = 4;
  constexpr struct {
    double call, round, rate;  // the last: elements of a multiprocessor's share of the weight, a microsecond
  } kMore[] = {{6.1, 4.2, 55.5e3}, {4.25, 4.4, 30e3}, {5.6, 4.2, 28.7e3}};
  const Rows plan = plan_gemv(a, device);
  const int64_t units = ratio_up(ratio_up(plan.units, plan.grid), int64_t{1} << (kGemvWarpsLog2 - plan.k_warps_log2));
  const int64_t depths = ratio_up(ratio_up(a.k, kGemvScales), int64_t{1} << plan.k_warps_log2);
  if (plan.kind <= kTwo) {
    const double each = plan.grid > device.multiprocessors ? kBeside : kAlone;
    return kCall + static_cast<double>(gemv_warp_cost(plan.kind, units, depths)) * each;
  }
  const auto& more = kMore[plan.kind - kTwo - 1];
  const double share = static_cast<double>(a.n) * static_cast<double>(a.k) / device.multiprocessors;
  return more.call + static_cast<double>(ratio_up(units, kRound) * depths - 1) * more.round + share / more.rate;
}

// Of more rows of x than the kernels for few rows take, or another depth than those; and of two rows and more where
// that is faster by these estimates, fitted to what 69 weights of 512 to 32000 rows took. One row is bound by
// memory. Figures: benchmarks/ops/four_bit/notes/matmul_4bit-choice-notes.md.
inline bool takes_narrow(const Matmul4bit& a, const Device& device, uint32_t features) {
  constexpr double kFaster = 0.95;  // what the estimates may be off
  if (!can_narrow(a, features)) return false;
  if (a.m > kGemvMost || a.k % kGemvRange != 0) return true;
  return a.m >= kNarrowRowsLeast && narrow_call_cost(plan_narrow(a, device)) < kFaster * gemv_cost(a, device);
}

}  // namespace kw::matmul_4bit_plan
