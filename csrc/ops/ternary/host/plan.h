// SPDX-License-Identifier: MIT
// Which kernel of csrc/ops/ternary/matmul_ternary.cu computes a call, in how many blocks and how much shared memory.
#pragma once

#include "core/launch.h"
#include "ops/ternary/host/ternary.h"
#include "ops/ternary/params.h"

namespace kw::ternary_plan {

using namespace ternary;

constexpr int64_t kFewRows = 32, kFewRowsWgmma = 16;  // the latter where warpgroups can take more

static_assert(KW_FLOAT32 == int{KW_TERNARY_FLOAT32} && KW_FLOAT16 == int{KW_TERNARY_FLOAT16} &&
                  KW_BFLOAT16 == int{KW_TERNARY_BFLOAT16} && KW_INT32 == int{KW_TERNARY_INT32},
              "kernels number element types as the ABI does");

enum class Way { kFew, kTiles, kWide };

inline bool boxes(const MatmulTernary& a) {
  return reinterpret_cast<uintptr_t>(a.x) % 16 == 0 && (a.m == 1 || (a.x_stride % 16 == 0 && a.x_stride >= a.k));
}

inline Way way_of(const MatmulTernary& a, uint32_t features) {
  const bool wide = (features & KW_FEATURE_WGMMA) != 0 && boxes(a) && a.k > 0;
  if (a.m <= (wide ? kFewRowsWgmma : kFewRows)) return Way::kFew;
  return wide ? Way::kWide : Way::kTiles;
}

// Warps of a block have runs of the blocks of its groups of rows; more groups than that would want too much shared
// memory for their sums.
struct Few {
  int64_t tiles, warps, grid, chunk_blocks, slots, shared;
};

// `tiles`: of 8 rows of x, that the kernel has at least; `more`: bytes of shared memory that it wants besides.
inline Few few_for(const MatmulTernary& a, const Device& device, uint32_t features, int64_t tiles = 1,
                   int64_t more = 0) {
  Few plan{};
  plan.tiles = a.m <= 8 ? tiles : a.m <= 16 ? 2 : 4;
  plan.warps = plan.tiles == 4 ? KW_TERNARY_FEW_WARPS / 2 : KW_TERNARY_FEW_WARPS;
  const int64_t rows = plan.tiles * 8, groups = groups_of(a.n), blocks = blocks_of(a.k), most = 32 / plan.tiles;
  const int64_t least = ratio_up(groups, most),
                blocks_at_once = device.multiprocessors > least ? device.multiprocessors : least;
  plan.grid = groups < blocks_at_once ? groups : blocks_at_once;
  plan.slots = ratio_up(groups, plan.grid) + plan.warps;
  const int64_t sums = (plan.warps > rows ? plan.warps : rows) * 4;
  const int64_t ring = plan.warps * KW_TERNARY_BLOCK *
                       ((features & KW_FEATURE_WGMMA) != 0 ? KW_TERNARY_FEW_STAGES_WGMMA : KW_TERNARY_FEW_STAGES);
  const int64_t fixed = plan.slots * rows * KW_TERNARY_FEW_PITCH * 4 + sums + ring + more;
  const int64_t room = (device.shared_per_block - fixed) / a.m - 16;
  const int64_t fit = room / KW_TERNARY_DEPTH > 1 ? room / KW_TERNARY_DEPTH : 1;
  const int64_t chunks = blocks > fit ? ratio_up(blocks, fit) : 1;
  plan.chunk_blocks = blocks > 1 ? ratio_up(blocks, chunks) : 1;
  plan.shared = fixed + a.m * (plan.chunk_blocks * KW_TERNARY_DEPTH + 16);
  // More than half of what there is: one block a multiprocessor. Else, where a kernel between two of these takes one
  // multiprocessor's room, two blocks of the next meet on another, and all wait for these two.
  const int64_t more_than_half = device.shared_per_block / 2 + 1024;
  if (plan.shared < more_than_half) plan.shared = more_than_half;
  return plan;
}

inline KwTernaryEnd end_of(const MatmulTernary& a) {
  const int64_t size = a.dtype == KW_FLOAT16 || a.dtype == KW_BFLOAT16 ? 2 : 4;
  KwTernaryEnd end{};
  end.y = static_cast<char*>(a.y);
  end.absmax = reinterpret_cast<const char*>(a.absmax);
  end.scale = reinterpret_cast<const char*>(a.scale);
  end.bias = static_cast<const char*>(a.bias);
  end.y_pitch = a.y_stride * size;
  end.m = static_cast<unsigned>(a.m);
  end.n = static_cast<unsigned>(a.n);
  end.scales = a.scales > 1;
  end.type = a.dtype;
  return end;
}

// All but x.
inline KwMatmulTernaryFewParams few_params(const MatmulTernary& a, const Few& plan) {
  KwMatmulTernaryFewParams p{};
  p.end = end_of(a);
  p.packed = reinterpret_cast<const char*>(a.packed);
  p.k = static_cast<unsigned>(a.k);
  p.groups = static_cast<unsigned>(groups_of(a.n));
  p.blocks = static_cast<unsigned>(blocks_of(a.k));
  p.chunk_blocks = static_cast<unsigned>(plan.chunk_blocks);
  p.slots = static_cast<unsigned>(plan.slots);
  return p;
}

inline Launch few_launch(const Few& plan) {
  Launch how{static_cast<uint32_t>(plan.grid), static_cast<uint32_t>(plan.warps * 32)};
  how.shared = static_cast<uint32_t>(plan.shared);
  how.overlap = true;
  return how;
}

inline kw_status check_features(const char* name, const Context& context) {
  constexpr uint32_t kNeeded = KW_FEATURE_INT8_MMA | KW_FEATURE_CP_ASYNC;
  if ((context.features & kNeeded) == kNeeded) return KW_OK;
  return fail(KW_ERROR_UNSUPPORTED,
              "%s: this GPU has no products of 16 x 32 bytes (compute capability %d; 8.0 has them). Run it on the CPU",
              name, context.device->capability);
}

struct Tiles {
  int cluster;                  // blocks that share rows of x
  int64_t width;                // rows of x that a tile has
  int64_t rows, columns, grid;  // tiles of the weight and of x, and blocks
};

// Narrow tiles for few rows of x, and where wide ones would leave half of the GPU without any.
inline int64_t width_of(const MatmulTernary& a, const Device& device, int64_t rows) {
  if (a.m <= 32) return 32;
  if (a.m <= 64 || rows * ratio_up(a.m, KW_TERNARY_TILE_COLUMNS) * 2 <= device.multiprocessors) return 64;
  return KW_TERNARY_TILE_COLUMNS;
}

inline Tiles tiles_for(const MatmulTernary& a, const Device& device, bool wide) {
  Tiles plan{};
  plan.rows = ratio_up(a.n, KW_TERNARY_TILE_ROWS);
  plan.width = wide ? width_of(a, device, plan.rows) : int64_t{KW_TERNARY_TILE_COLUMNS};
  plan.columns = ratio_up(a.m, plan.width);
  plan.cluster = wide && plan.width == KW_TERNARY_TILE_COLUMNS && plan.rows > 1 ? 2 : 1;
  plan.rows = ratio_up(plan.rows, plan.cluster) * plan.cluster;
  const int64_t tiles = plan.rows / plan.cluster * plan.columns, room = device.multiprocessors / plan.cluster;
  plan.grid = (!wide || tiles < room || room == 0 ? tiles : room) * plan.cluster;
  return plan;
}

}  // namespace kw::ternary_plan
