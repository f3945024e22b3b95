// SPDX-License-Identifier: MIT
// Which kernel of csrc/ops/four_bit/matmul_4bit.cu a call gets, and in what geometry. Sizes follow from the shape, the
// number of multiprocessors and their shared memory. Measured: benchmarks/ops/four_bit/notes/matmul_4bit-sass.md.
#pragma once

#include "ops/four_bit/geometry.h"
#include "ops/four_bit/host/launch.h"

namespace kw::matmul_4bit_plan {

constexpr int kKinds = 2;
constexpr int kCols[kKinds] = {32, 64};                             // rows of x a kernel can take
constexpr int kWarpRows[kKinds] = {32, 64};                         // rows of the weight a warp takes
constexpr int kWarps[kKinds] = {KW_TILE32_WARPS, KW_TILE64_WARPS};  // of a block, at most
constexpr int64_t kChunk = int64_t{1} << kChunkLog2;                // of k
constexpr int64_t kMaxChunks = int64_t{1} << 31;                    // rows past the end are counted too
constexpr int64_t kWarpDepth = kWarpChunks * kChunk;                // of k that a warp takes at a time
constexpr int64_t kScaleBytes = 16;                                 // of four chunks of a row
constexpr int kMaxStages = KW_TILE_STAGES;

struct Tile {
  int kind = 0;
  int row_warps = 0;  // 0: there is no such plan
  int k_warps_log2 = 0;
  int stages = 0;
  int64_t shared = 0;
  int64_t tiles = 0;
  int64_t grid = 0;
  double cost = 0.0;
};

// Whether rows of x, of 16-bit elements, begin where vectors do.
inline bool vectors_of_x(const Matmul4bit& a) {
  return aligned_to(a.x, kVectorBytes) && (a.m == 1 || a.x_stride * 2 % kVectorBytes == 0);
}

// Whether the kernels on tensor cores can take it: whole vectors everywhere.
inline bool tiled(const Matmul4bit& a, uint32_t features) {
  constexpr uint32_t kNeeded = KW_FEATURE_BF16_MMA | KW_FEATURE_CP_ASYNC | KW_FEATURE_LDMATRIX;
  if ((features & kNeeded) != kNeeded || a.dtype == KW_FLOAT32 || a.k == 0 || a.k % kChunk != 0) return false;
  if (a.n > (kMaxChunks - 1) / (a.k / kChunk)) return false;
  return aligned_to(a.packed, kVectorBytes) && vectors_of_x(a);
}

inline int64_t depth(const Tile& t) { return kWarpDepth << t.k_warps_log2; }

inline int64_t rows(const Tile& t) { return int64_t{t.row_warps} * kWarpRows[t.kind]; }

inline int64_t stage_bytes(const Tile& t, int64_t m) { return rows(t) * depth(t) / 2 + m * (depth(t) * 2 + kXPadding); }

// Of the warps' sums and scales.
inline int64_t sums_bytes(const Tile& t) {
  const int64_t scales = rows(t) << t.k_warps_log2;
  return ((rows(t) + kSumsPadding) * (kSumsCols * 4) << t.k_warps_log2) + scales * kScaleBytes;
}

// As many stages as there is room for; false where that is fewer than two.
inline bool fit(const Device& device, int64_t m, Tile* t) {
  const int64_t stages = (device.shared_per_block - kPairsBytes - sums_bytes(*t)) / stage_bytes(*t, m);
  t->stages = static_cast<int>(stages < kMaxStages ? stages : kMaxStages);
  t->shared = kPairsBytes + sums_bytes(*t) + t->stages * stage_bytes(*t, m);
  return t->stages >= 2;
}

// Bytes that the busiest multiprocessor reads: of the weight with its scales, and x again for each tile, from L2.
inline double cost_of(const Matmul4bit& a, const Device& device, const Tile& t) {
  const double codes = static_cast<double>(rows(t)) * static_cast<double>(a.k) * 0.5625;
  const double x = static_cast<double>(a.m) * static_cast<double>(a.k) * 2 * 0.5;
  return static_cast<double>(ratio_up(t.tiles, device.multiprocessors)) * (codes + x);
}

inline Tile plan_kind(const Matmul4bit& a, const Device& device, int kind) {
  Tile best;
  for (int row_warps = 1; row_warps <= kWarps[kind]; ++row_warps) {
    Tile t;
    t.kind = kind;
    t.row_warps = row_warps;
    while ((row_warps << (t.k_warps_log2 + 1)) <= kWarps[kind] && depth(t) < a.k) ++t.k_warps_log2;
    t.tiles = ratio_up(a.n, rows(t));
    t.grid = t.tiles < device.multiprocessors ? t.tiles : device.multiprocessors;
    t.cost = cost_of(a, device, t);
    if ((best.row_warps == 0 || t.cost < best.cost) && fit(device, a.m, &t)) best = t;
  }
  return best;
}

// For a.m rows of x, no more than the widest kernel's. A GPU has too little shared memory for the widest where it has
// for none of its plans: then half the rows are a launch.
inline Tile plan_for(const Matmul4bit& a, const Device& device) {
  int kind = 0;
  while (kCols[kind] < a.m) ++kind;
  return plan_kind(a, device, kind);
}

// What the values of codes are multiplied by before they are rounded to the type of x, by type and KW_NF4, KW_FP4:
// those factors for which they are rounded least (NF4: at most 2^-9.3 in bfloat16, 2^-12.5 in float16; FP4: not at
// all).
constexpr float kFactors[3][2] = {{1.0f, 1.0f}, {1.6384992599487305f, 1.5f}, {1.1888103485107422f, 1.5f}};

}  // namespace kw::matmul_4bit_plan
