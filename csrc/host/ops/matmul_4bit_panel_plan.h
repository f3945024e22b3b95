// SPDX-License-Identifier: MIT
// In what geometry the kernels by warpgroups (csrc/cuda/include/matmul_4bit_panel.cuh) run. Measured on an H200:
// benchmarks/results/matmul_4bit-panel-notes.md.
#pragma once

#include "matmul_4bit_plan.h"
#include "matmul_4bit_rows_plan.h"

namespace kw::matmul_4bit_plan {

// As in csrc/cuda/include/matmul_4bit_panel.cuh, matmul_4bit_panel_copy.cuh and matmul_4bit_panel_x.cuh.
constexpr int64_t kPanelCols[] = {32, 64};  // rows of x of a group
constexpr int64_t kPanelRows = 256;
constexpr int64_t kPanelSlice = 64;
constexpr int64_t kPanelStep = 256;
constexpr uint32_t kPanelThreads = 512;
constexpr int64_t kPanelTable = 256 * 256;
constexpr int64_t kPanelAlignment = 1024;
constexpr int64_t kPanelCodes = 16 * 3 * 16 * 128;  // of the warps' rings
constexpr int64_t kPanelStages = 4;                 // of x, of two slices each
constexpr int64_t kPanelXThreads = 256;
constexpr int64_t kMostSplit = 8;  // blocks of a cluster that every GPU with clusters can place
constexpr int64_t kPanelRowsLeast = 8;
constexpr int64_t kPanelLarge = int64_t{1} << 25;  // elements of a weight
constexpr int64_t kPanelDepth = int64_t{1} << 25;  // bytes of a tile are counted in 32 bits
constexpr int64_t kMostUnits = int64_t{1} << 31;

struct Panel {
  int kind = 0;
  int64_t groups = 0;  // of rows of x
  int64_t split = 0;   // blocks of a cluster
  int64_t grid = 0;
  int64_t shared = 0;
};

// More rows of x than the other kernels take; and of large weights already more than 8. With 24 rows of x an H200 took
// 26 µs for 13824 x 5120 and 61 for 28672 x 8192 here, where the kernel for 16 rows took 36 and 77; 14 for 4096 x 4096,
// not 11.
inline bool rows_for_panel(int64_t m, int64_t n, int64_t k) {
  return m > kRowsMost || (m > kPanelRowsLeast && n >= ratio_up(kPanelLarge, k));
}

// Whether these sizes are for them; addresses are another matter (tiled()).
inline bool has_panel(int64_t m, int64_t n, int64_t k, int32_t blocksize, int32_t dtype, uint32_t features) {
  constexpr uint32_t kNeeded = KW_FEATURE_WGMMA | KW_FEATURE_TMA | KW_FEATURE_CLUSTER;
  if ((features & kNeeded) != kNeeded || dtype == KW_FLOAT32 || n == 0 || k == 0 || !rows_for_panel(m, n, k))
    return false;
  if (k % kPanelSlice != 0 || k >= kPanelDepth || blocksize < kPanelSlice) return false;
  if (n >= kMostUnits / k * kPanelSlice || m >= kMostUnits / k) return false;
  return ratio_up(n, kPanelRows) * ratio_up(m, kPanelCols[0]) <= kMaxBlocks / kMostSplit;
}

// x in the order of these kernels, in whichever groups.
inline int64_t panel_workspace(int64_t m, int64_t k) {
  const int64_t cols = kPanelCols[m <= kPanelCols[0] ? 0 : 1];
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
inline double panel_cost(const Panel& plan, int64_t steps, const Device& device) {
  constexpr double kStep[] = {1.55, 2.15}, kBlock = 8.0;
  const int64_t turns = ratio_up(plan.grid, at_once(device, plan.split));
  return static_cast<double>(turns) * (static_cast<double>(ratio_up(steps, plan.split)) * kStep[plan.kind] + kBlock);
}

inline Panel plan_panel(const Matmul4bit& a, const Device& device) {
  const int64_t tiles = ratio_up(a.n, kPanelRows), steps = ratio_up(a.k, kPanelStep);
  Panel best;
  double least = 0.0;
  for (int kind = 0; kind < 2; ++kind) {
    if (kind > 0 && a.m <= kPanelCols[0]) break;
    for (int64_t split = 1; split <= kMostSplit && split <= steps && split <= device.multiprocessors; ++split) {
      Panel plan;
      plan.kind = kind;
      plan.groups = ratio_up(a.m, kPanelCols[kind]);
      plan.split = split;
      plan.grid = tiles * plan.groups * split;
      const double cost = panel_cost(plan, steps, device);
      if (best.split != 0 && cost >= least) continue;
      least = cost;
      best = plan;
    }
  }
  best.shared = kPanelTable + kPanelAlignment + kPanelStages * 2 * kPanelCols[best.kind] * kPanelSlice * 2 +
                kPanelCodes + (2 * kPanelStages + 1) * 8;
  return best;
}

}  // namespace kw::matmul_4bit_plan
