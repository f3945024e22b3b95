// SPDX-License-Identifier: MIT
// Which kernel of csrc/ops/linear/linear.cu computes a call, and in how many blocks.
#pragma once

#include "core/launch.h"
#include "core/sizes.h"
#include "ops/linear/host/linear.h"
#include "ops/linear/params.h"

namespace kw::linear_plan {

constexpr int64_t kMaxRows = int64_t{1} << 31;  // that a coordinate of a box counts
constexpr int64_t kAlignment = 16;              // bytes: of addresses and rows that boxes are copied of
constexpr unsigned kGroup = 4;                  // rows of tiles, or of pairs of them, that are computed together

// The largest power of two, up to 16, that the addresses and rows of both factors are multiples of, in bytes.
inline int64_t alignment_of(const Linear& a) {
  uintptr_t bits = kAlignment | reinterpret_cast<uintptr_t>(a.x) | reinterpret_cast<uintptr_t>(a.weight);
  if (a.m > 1) bits |= static_cast<uintptr_t>(a.x_stride * 2);
  if (a.weight_rows() > 1) bits |= static_cast<uintptr_t>(a.weight_stride * 2);
  return static_cast<int64_t>(bits & (~bits + 1));
}

// Rows of a factor lie one after the other: what else a stride may say, boxes do not know.
inline bool whole_rows(const Linear& a, int64_t alignment) {
  if (a.dtype == KW_FLOAT32 || alignment < kAlignment) return false;
  const bool forward = (a.m == 1 || a.x_stride >= a.k) && (a.weight_rows() == 1 || a.weight_stride >= a.k);
  return forward && a.k > 0 && a.m < kMaxRows && a.n < kMaxRows / 2 && a.k < kMaxRows;
}

inline bool fits(const Linear& a, int64_t alignment, uint32_t features) {
  return (features & KW_FEATURE_WGMMA) != 0 && whole_rows(a, alignment);
}

struct Plan {
  int cluster;                  // blocks that share columns
  int64_t rows, columns, grid;  // tiles, and blocks
};

// A pair needs two rows of tiles to share.
inline Plan plan_for(const Linear& a, const Device& device) {
  Plan plan{};
  plan.rows = ratio_up(a.m, KW_LINEAR_ROWS);
  plan.columns = ratio_up(a.n, a.gated ? KW_LINEAR_COLUMNS / 2 : KW_LINEAR_COLUMNS);
  plan.cluster = plan.rows > 1 ? 2 : 1;
  plan.rows = ratio_up(plan.rows, plan.cluster) * plan.cluster;
  const int64_t tiles = plan.rows / plan.cluster * plan.columns, room = device.multiprocessors / plan.cluster;
  plan.grid = (tiles < room || room == 0 ? tiles : room) * plan.cluster;
  return plan;
}

inline Plan plan_warps(const Linear& a) {
  Plan plan{};
  plan.cluster = 1;
  plan.rows = ratio_up(a.m, KW_LINEAR_WARPS_TILE);
  plan.columns = ratio_up(a.n, a.gated ? KW_LINEAR_WARPS_TILE / 2 : KW_LINEAR_WARPS_TILE);
  plan.grid = plan.rows * plan.columns;
  return plan;
}

// The kernels by warps, where there are none by warpgroups: they read whole units of 16 bytes, and a launch counts its
// blocks in 31 bits.
inline bool fits_warps(const Linear& a, int64_t alignment, uint32_t features) {
  constexpr uint32_t kNeeded = KW_FEATURE_BF16_MMA | KW_FEATURE_CP_ASYNC;
  if ((features & kNeeded) != kNeeded || (features & KW_FEATURE_WGMMA) != 0) return false;
  return whole_rows(a, alignment) && a.k * 2 % kAlignment == 0 && plan_warps(a).grid < kMaxRows;
}

// One launch is all that such a call takes.
inline bool small(const Linear& a) {
  constexpr int64_t kMostDeep = 128, kMostResults = 65536;
  return a.k <= kMostDeep && a.n <= kMostResults && a.m <= kMostResults && a.m * a.n <= kMostResults;
}

// Whether one pass beats a product by cuBLAS and a pass for its activation: on an H200 it did of 4096 of k, 1.00
// to 1.03 times as fast, and did not of 8192 (0.97) or of few rows (0.6 to 0.7). Three of four multiprocessors must
// have a tile.
inline bool pays(const Linear& a, const Device& device) {
  constexpr int64_t kFewestRows = 256, kDeepest = 4096;
  if (a.m < kFewestRows || a.k > kDeepest) return false;
  return ratio_up(a.m, KW_LINEAR_ROWS) * plan_for(a, device).columns * 4 >= device.multiprocessors * 3;
}

}  // namespace kw::linear_plan
