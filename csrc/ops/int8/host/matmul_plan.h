// SPDX-License-Identifier: MIT
// Which kernel of csrc/ops/int8/matmul_int8.cu or csrc/ops/fp8/matmul_fp8.cu computes a call, and in how many blocks.
#pragma once

#include "core/launch.h"
#include "core/sizes.h"
#include "device/any_tile.h"
#include "ops/int8/host/matmul_int8.h"
#include "ops/int8/matmul_params.h"

namespace kw::matmul_int8_plan {

constexpr int64_t kMaxRows = int64_t{1} << 31;  // that a coordinate of a box counts
constexpr int64_t kAlignment = 16;              // bytes: of addresses and rows
constexpr int64_t kFewRows = 16;                // at most, where the weight is read once for all of them
constexpr unsigned kGroup = 4;                  // rows of tiles, or of pairs of them, that are computed together

enum class Way { kAny, kFew, kTile, kWarpgroups };

inline bool aligned(const ByteProduct& a) {
  uintptr_t bits = reinterpret_cast<uintptr_t>(a.x) | reinterpret_cast<uintptr_t>(a.weight);
  if (a.m > 1) bits |= static_cast<uintptr_t>(a.x_stride);
  if (a.n > 1) bits |= static_cast<uintptr_t>(a.weight_stride);
  return bits % kAlignment == 0;
}

// Rows lie one after the other, and boxes count them.
inline bool fits_rows(const ByteProduct& a) {
  const bool forward = (a.m == 1 || a.x_stride >= a.k) && (a.n == 1 || a.weight_stride >= a.k);
  return forward && a.k > 0 && a.m < kMaxRows && a.n < kMaxRows && a.k < kMaxRows;
}

// Boxes can be copied of both factors.
inline bool fits_boxes(const ByteProduct& a) { return aligned(a) && fits_rows(a); }

// What an image must have for the kernels by warps.
struct Needs {
  uint32_t few, tile;
};

inline Way way_for(const ByteProduct& a, uint32_t features, const Needs& needs) {
  auto have = [=](uint32_t needed) { return (features & needed) == needed; };
  if (!fits_boxes(a)) return Way::kAny;
  const bool whole = a.k % kAlignment == 0;  // units of 16 bytes
  if (a.m <= kFewRows && whole && have(needs.few)) return Way::kFew;
  if (have(KW_FEATURE_WGMMA)) return Way::kWarpgroups;
  return whole && have(needs.tile) ? Way::kTile : Way::kAny;
}

struct Plan {
  int cluster;                  // blocks that share columns
  int64_t width;                // columns of a tile
  int64_t rows, columns, grid;  // tiles, and blocks
};

// Rounds of tiles, each as long as what it copies: a wide tile reads less for its products, a narrow one leaves no
// multiprocessor without work. A pair needs two rows of tiles to share, and is for the wide ones.
inline Plan plan_for(const ByteProduct& a, const Device& device) {
  Plan best{};
  int64_t least = 0;
  for (int64_t width = KW_MATMUL_COLUMNS; width >= 64; width /= 2) {
    Plan plan{};
    plan.width = width;
    plan.rows = ratio_up(a.m, KW_MATMUL_ROWS);
    plan.columns = ratio_up(a.n, width);
    const int64_t rounds = ratio_up(plan.rows * plan.columns, device.multiprocessors);
    const int64_t cost = rounds * (KW_MATMUL_ROWS + width);
    if (least > 0 && cost >= least) continue;
    least = cost;
    plan.cluster = plan.rows > 1 && width == KW_MATMUL_COLUMNS ? 2 : 1;
    plan.rows = ratio_up(plan.rows, plan.cluster) * plan.cluster;
    const int64_t tiles = plan.rows / plan.cluster * plan.columns, room = device.multiprocessors / plan.cluster;
    plan.grid = (tiles < room || room == 0 ? tiles : room) * plan.cluster;
    best = plan;
  }
  return best;
}

// Blocks of few rows of x: as many as the GPU has room for at once, so that each goes through rows of the weight.
inline int64_t few_blocks(int64_t groups, const Device& device) {
  const int64_t room = 2 * device.multiprocessors;
  return groups < room ? groups : room;
}

}  // namespace kw::matmul_int8_plan
