// SPDX-License-Identifier: MIT
// In what geometry the kernels for many rows of x (csrc/ops/four_bit/device/matmul_wide.cuh) run.
#pragma once

#include "ops/four_bit/host/matmul_narrow_plan.h"

namespace kw::matmul_4bit_plan {

constexpr int kWideKinds = 5;
constexpr int64_t kWideCols[kWideKinds] = {96, 128, 160, 192, 256};  // rows of x of a tile
constexpr int64_t kWideLeast = 65;                                   // rows of x
constexpr int64_t kWidePairRows = kWideRows * kWideCluster;          // of the weight
constexpr int64_t kWideGroup = 8;                                    // tiles of x that are computed beside each other
constexpr int64_t kWideFewest = 4;                                   // steps of a pair of blocks that has a share
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
inline bool fits_wide(const Matmul4bit& a) {
  return aligned_to(a.packed, kVectorBytes) && vectors_of_x(a) && (a.m == 1 || a.x_stride >= a.k);
}

// In cycles of a multiprocessor: of a step, by what shared memory moves for it; of a tile's end; and of what a pair
// gives of a tile and another one takes.
inline double wide_tile(const Wide& plan, int64_t steps) {
  constexpr double kStep[kWideKinds] = {600, 700, 800, 900, 1080}, kEnd = 2500;
  return static_cast<double>(steps) * kStep[plan.kind] + kEnd;
}

inline double wide_share(const Wide& plan) { return 2500.0 + 10.0 * static_cast<double>(kWideCols[plan.kind]); }

// Each pair of blocks has whole tiles.
inline Wide wide_alone(Wide plan, int64_t tiles, int64_t most) {
  plan.pairs = tiles < most ? tiles : most;
  plan.whole = tiles;
  plan.cost = static_cast<double>(ratio_up(tiles, most)) * wide_tile(plan, plan.steps);
  return plan;
}

// So many pairs share the steps of the tiles that fill no round of all pairs, and of the round before them.
inline Wide wide_shared(Wide plan, int64_t tiles, int64_t pairs) {
  plan.pairs = pairs;
  plan.whole = tiles > pairs ? tiles - tiles % pairs - pairs : 0;
  plan.split = (tiles - plan.whole) * plan.steps;
  const int64_t met = tiles > pairs ? 2 : ratio_up(pairs, tiles) - (pairs % tiles == 0 ? 1 : 0);
  const double rounds = static_cast<double>(tiles) / static_cast<double>(pairs);
  const double ends = static_cast<double>(tiles > pairs ? ratio_up(tiles, pairs) : 1);
  plan.cost = rounds * (wide_tile(plan, plan.steps) - wide_tile(plan, 0)) + ends * wide_tile(plan, 0) +
              static_cast<double>(met) * wide_share(plan);
  return plan;
}

inline Wide plan_wide(const Matmul4bit& a, const Device& device, int kind) {
  Wide plan;
  plan.kind = kind;
  plan.rows = ratio_up(a.n, kWidePairRows);
  plan.columns = ratio_up(a.m, kWideCols[kind]);
  plan.steps = ratio_up(a.k, kWideDepth);
  const int64_t tiles = plan.rows * plan.columns, room = device.multiprocessors / kWideCluster;
  const int64_t most = room > 0 ? room : 1;
  Wide best = wide_alone(plan, tiles, most);
  if (tiles % most != 0 && tiles * plan.steps >= most * kWideFewest) {
    const Wide shared = wide_shared(plan, tiles, most);
    if (shared.cost < best.cost) best = shared;
  }
  for (int64_t parts = 2; parts * tiles <= most && parts * kWideFewest <= plan.steps; ++parts) {
    const Wide shared = wide_shared(plan, tiles, parts * tiles);
    if (shared.cost < best.cost) best = shared;
  }
  return best;
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
  const int64_t groups[] = {kNarrowCols[kNarrowKinds - 1], a.m % kNarrowCols[kNarrowKinds - 1]};
  for (const int64_t rows : groups) {
    Matmul4bit part = a;
    part.m = rows;
    if (rows == 0 || !can_narrow(part, features)) continue;
    const int64_t needed = narrow_workspace(part, device);
    if (needed > bytes) bytes = needed;
  }
  return bytes > 0 ? bytes : kVectorBytes;
}

}  // namespace kw::matmul_4bit_plan
