// SPDX-License-Identifier: MIT
// In what geometry the kernels for many rows of x (csrc/ops/four_bit/device/matmul_wide.cuh) run.
#pragma once

#include "ops/four_bit/host/matmul_panel_plan.h"

namespace kw::matmul_4bit_plan {

constexpr int kWideKinds = 5;
constexpr int64_t kWideCols[kWideKinds] = {96, 128, 160, 192, 256};  // rows of x of a tile
constexpr int64_t kWideLeast = 65;                                   // rows of x
constexpr int64_t kWidePairRows = kWideRows * kWideCluster;          // of the weight
constexpr int64_t kWideGroup = 8;                                    // tiles of x that are computed beside each other
constexpr int64_t kWideFewest = 4;  // steps of a pair of blocks that has a share of a tile
constexpr int64_t kWideCoordinate = int64_t{1} << 31;

struct Wide {
  int kind = 0;
  int64_t rows = 0, columns = 0;  // tiles of pairs of blocks: of the weight, of x
  int64_t steps = 0;              // of a tile
  int64_t pairs = 0;
  int64_t whole = 0;  // tiles that a pair has alone
  int64_t split = 0;  // steps of the others
  double cost = 0.0;
};

inline bool can_wide(const Matmul4bit& a, uint32_t features) {
  constexpr uint32_t kNeeded = KW_FEATURE_WGMMA | KW_FEATURE_TMA | KW_FEATURE_CLUSTER | KW_FEATURE_SETMAXNREG;
  if ((features & kNeeded) != kNeeded || a.dtype == KW_FLOAT32 || a.m < kWideLeast || a.n == 0 || a.k == 0)
    return false;
  if (a.k % kChunk != 0 || a.m >= kWideCoordinate / 2 || a.n >= kWideCoordinate / 2) return false;
  const int64_t steps = ratio_up(a.k, kWideDepth), most = ratio_up(a.m, kWideCols[0]);
  if (a.k >= kWideCoordinate / 2 || a.n >= 2 * kWideCoordinate / (a.k / kChunk)) return false;
  return ratio_up(a.n, kWidePairRows) < kWideCoordinate / steps / most;
}

// Whether the addresses are for boxes of x and vectors of codes.
inline bool places_for_wide(const Matmul4bit& a) {
  return aligned_to(a.packed, kVectorBytes) && vectors_of_x(a) && (a.m == 1 || a.x_stride >= a.k);
}

// In cycles of a multiprocessor: of a step, by what shared memory moves for it; of a tile's end; of a share of one.
inline double wide_cost(const Wide& plan, bool shared) {
  constexpr double kStep[kWideKinds] = {620, 700, 800, 900, 1080}, kEnd = 2500, kShare = 6000;
  const double tiles = static_cast<double>(plan.rows * plan.columns), pairs = static_cast<double>(plan.pairs);
  const double tile = static_cast<double>(plan.steps) * kStep[plan.kind] + kEnd;
  if (!shared) return static_cast<double>(ratio_up(plan.rows * plan.columns, plan.pairs)) * tile;
  return tiles / pairs * tile + kShare;
}

// Of the tiles that fill no round of all pairs, and of the round before them where there is one, pairs have shares.
inline Wide plan_wide(const Matmul4bit& a, const Device& device, int kind) {
  Wide plan;
  plan.kind = kind;
  plan.rows = ratio_up(a.n, kWidePairRows);
  plan.columns = ratio_up(a.m, kWideCols[kind]);
  plan.steps = ratio_up(a.k, kWideDepth);
  const int64_t tiles = plan.rows * plan.columns, most = device.multiprocessors / kWideCluster;
  const int64_t shares = ratio_up(tiles * plan.steps, kWideFewest), room = most > 0 ? most : 1;
  plan.pairs = room < shares ? room : shares;
  const int64_t rest = tiles % plan.pairs;
  const double alone = wide_cost(plan, false), shared = wide_cost(plan, true);
  plan.cost = alone < shared ? alone : shared;
  plan.whole = tiles;
  if (alone <= shared || rest == 0) {
    if (tiles < plan.pairs) plan.pairs = tiles;
    return plan;
  }
  plan.whole = tiles > plan.pairs ? tiles - rest - plan.pairs : 0;
  plan.split = (tiles - plan.whole) * plan.steps;
  return plan;
}

inline Wide plan_wide(const Matmul4bit& a, const Device& device) {
  Wide best = plan_wide(a, device, 0);
  for (int kind = 1; kind < kWideKinds; ++kind) {
    const Wide plan = plan_wide(a, device, kind);
    if (plan.cost < best.cost) best = plan;
  }
  return best;
}

inline int64_t wide_flags(const Wide& plan) { return plan.split > 0 ? plan.pairs * kWideCluster * kWideWarps : 0; }

inline int64_t wide_sums(const Wide& plan) { return wide_flags(plan) * kWideCols[plan.kind] * (16 * 4); }

// Where rows of x lie as boxes cannot have them, as many at once as a group of the other kernels by warpgroups.
inline int64_t wide_workspace(const Matmul4bit& a, const Device& device, uint32_t features) {
  const Wide plan = plan_wide(a, device);
  int64_t bytes = wide_flags(plan) * 4 + wide_sums(plan);
  const int64_t groups[] = {kPanelCols[kPanelKinds - 1], a.m % kPanelCols[kPanelKinds - 1]};
  for (const int64_t rows : groups) {
    Matmul4bit part = a;
    part.m = rows;
    if (rows == 0 || !can_panel(part, features)) continue;
    const int64_t needed = panel_workspace(part, device);
    if (needed > bytes) bytes = needed;
  }
  return bytes > 0 ? bytes : kVectorBytes;
}

}  // namespace kw::matmul_4bit_plan
