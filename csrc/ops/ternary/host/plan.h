// SPDX-License-Identifier: MIT
// Which kernel of csrc/ops/ternary/matmul_ternary.cu computes a call, in how many blocks and how much shared memory.
#pragma once

#include "core/launch.h"
#include "ops/ternary/host/ternary.h"
#include "ops/ternary/params.h"

namespace kw::ternary_plan {

using namespace ternary;

constexpr int64_t kFewRows = 32;

enum class Way { kFew, kTiles, kWide };

inline bool boxes(const MatmulTernary& a) {
  return reinterpret_cast<uintptr_t>(a.x) % 16 == 0 && (a.m == 1 || (a.x_stride % 16 == 0 && a.x_stride >= a.k));
}

inline Way way_of(const MatmulTernary& a, uint32_t features) {
  if (a.m <= kFewRows) return Way::kFew;
  return (features & KW_FEATURE_WGMMA) != 0 && boxes(a) && a.k > 0 ? Way::kWide : Way::kTiles;
}

// Warps of a block have runs of the blocks of its groups of rows; more groups than that would want too much shared
// memory for their sums.
struct Few {
  int64_t tiles, warps, grid, chunk_blocks, shared;
};

inline Few few_for(const MatmulTernary& a, const Device& device) {
  Few plan{};
  plan.tiles = a.m <= 8 ? 1 : a.m <= 16 ? 2 : 4;
  plan.warps = plan.tiles == 4 ? KW_TERNARY_FEW_WARPS / 2 : KW_TERNARY_FEW_WARPS;
  const int64_t rows = plan.tiles * 8, groups = groups_of(a.n), blocks = blocks_of(a.k), most = 32 / plan.tiles;
  const int64_t least = ratio_up(groups, most),
                blocks_at_once = device.multiprocessors > least ? device.multiprocessors : least;
  plan.grid = groups < blocks_at_once ? groups : blocks_at_once;
  const int64_t slots = (ratio_up(groups, plan.grid) + plan.warps) * rows * KW_TERNARY_FEW_PITCH * 4;
  const int64_t sums = rows * (plan.warps > rows ? plan.warps / rows : 1) * 4;
  const int64_t room = (device.shared_per_block - slots - sums) / rows - 16;
  const int64_t fit = room / KW_TERNARY_DEPTH > 1 ? room / KW_TERNARY_DEPTH : 1;
  const int64_t chunks = blocks > fit ? ratio_up(blocks, fit) : 1;
  plan.chunk_blocks = blocks > 1 ? ratio_up(blocks, chunks) : 1;
  plan.shared = slots + sums + rows * (plan.chunk_blocks * KW_TERNARY_DEPTH + 16);
  return plan;
}

struct Tiles {
  int cluster;                  // blocks that share rows of x
  int64_t rows, columns, grid;  // tiles of the weight and of x, and blocks
};

inline Tiles tiles_for(const MatmulTernary& a, const Device& device, bool wide) {
  Tiles plan{};
  plan.rows = ratio_up(a.n, KW_TERNARY_TILE_ROWS);
  plan.columns = ratio_up(a.m, KW_TERNARY_TILE_COLUMNS);
  plan.cluster = wide && plan.rows > 1 ? 2 : 1;
  plan.rows = ratio_up(plan.rows, plan.cluster) * plan.cluster;
  const int64_t tiles = plan.rows / plan.cluster * plan.columns, room = device.multiprocessors / plan.cluster;
  plan.grid = (!wide || tiles < room || room == 0 ? tiles : room) * plan.cluster;
  return plan;
}

}  // namespace kw::ternary_plan
