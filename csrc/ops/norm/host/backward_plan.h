// SPDX-License-Identifier: MIT
// In what geometry the derivatives of a norm are computed (csrc/ops/norm/device/backward_rows.cuh). Sizes follow from
// the shape, the device and the image's features; the constants were measured on an H200 (benchmarks/results/).
#pragma once

#include <stdint.h>

#include "core/launch.h"
#include "ops/norm/host/backward_lie.h"
#include "ops/norm/host/norm.h"

namespace kw::norm_backward_plan {

constexpr int kWarp = 32;
// As in csrc/ops/norm/device/backward_*.cuh.
constexpr int kThreadColumns = 16;
constexpr int kWideColumns = 32;
constexpr int kTeamWarps = 16;
constexpr int kDensePieces = 5;
constexpr int kDenseWarps = 16;
constexpr int kClusterParts = 8;
constexpr int kWideTeams = 3;      // of a wide block, at most
constexpr int kScratch = 3 << 10;  // bytes of shared memory a block has or loses besides
constexpr int kPhasedWideScratch = 2 << 10;
constexpr int kQuad = 4;
constexpr int kPause = 5;           // Plan's, of wide rows
constexpr int kFewestToPause = 32;  // rows of each group of blocks

// How rows lie, and when their derivatives follow: with the row after, or, where a cluster has to agree on their sums,
// one later. Where they are wide, a thread has twice as many columns.
// Where they are dense, rows are narrow and without gaps, and a warp has several as one run.
enum Kind { kShifted, kAligned, kLate, kPhased, kWide, kPhasedWide, kDense, kKinds };

inline bool is_wide(Kind kind) { return kind == kWide || kind == kPhasedWide; }
inline int warp_columns(Kind kind) { return kWarp * (is_wide(kind) ? kWideColumns : kThreadColumns); }

// `parts` blocks share a row: a cluster, or else each reads all of it. In a block, teams of warps have a row each.
struct Plan {
  Kind kind = kShifted;
  bool cluster = false;
  int group = kWarp;  // lanes a row: fewer than a warp's where rows are narrow
  int team_warps = 1;
  int teams = 1;
  int parts = 1;
  int shared = 0;           // bytes a block
  int period = 1;           // rows so far apart begin alike within 16 bytes, or
  bool sectors = false;     // within 32, which a wide row's vectors begin on
  int times = 1;            // sets of rows that a group of blocks has, each of rows that begin alike
  int pause = 0;            // rows that could be done in the time that it takes to go from one to the next
  int64_t partials = 0;     // groups of `parts` blocks
  int64_t rows_a_turn = 1;  // that all blocks together do

  int rows_a_warp() const { return kind == kDense ? kWarp / group & ~1 : kWarp / group; }
  // Rows of sums that are left. Wide blocks add to what they have left before.
  int64_t sums() const { return kind == kPhasedWide ? partials : partials * times; }
  int64_t rows_at_once() const { return times > 1 ? partials : rows_a_turn; }
  int64_t step() const { return times > 1 ? period : rows_a_turn; }  // from a thread's row to its next
};

// What decides: of a call, or of one that might come.
struct Shape {
  int64_t rows, cols;
  int size;  // bytes of an element
  bool aligned, centered;
  bool adds = false;   // there is a dsum
  int period = 0;      // where they are not aligned: as Plan has it; 0: the tensors' rows do not begin alike
  bool plain = false;  // of bfloat16, with weights of bfloat16 or none: only these have wide kernels
  bool dense = false;  // of bfloat16, without gaps, and the first rows begin on 16 bytes
  int sectors = 0;     // the same as `period`, within 32 bytes
};

inline int64_t ratio_up(int64_t n, int64_t d) { return (n + d - 1) / d; }
inline int64_t whole_quads(int64_t cols) { return ratio_up(cols, kQuad) * kQuad; }
// From one row of sums to the next.
inline int64_t sums_pitch(Kind kind, int64_t cols) { return kind == kPhasedWide ? whole_quads(cols) : cols; }
inline int least(int64_t a, int64_t b) { return static_cast<int>(a < b ? a : b); }

// Lines of a vector a lane that each of the blocks has that share a row.
inline int lines_of_block(int64_t cols, int parts) {
  constexpr int kElements = kVector / 2;
  return static_cast<int>(ratio_up(ratio_up(cols / kElements, kWarp), parts));
}

// The most warps of a block: the kernel's __launch_bounds__.
inline int most_warps(const Shape& s, bool clusters) {
  return !clusters || !s.aligned || s.size == 4 ? 16 : s.centered ? 20 : 24;
}

// Shared memory of a warp: the rows on their way, and weights, as float32 unless they are wide rows'. Rows that lie
// anyhow take a vector more for each row of the warp, in a line of their own.
inline int warp_bytes(const Shape& s, Kind kind, int group) {
  const int columns = warp_columns(kind), tensor = columns * s.size + (s.aligned ? 0 : (kWarp + 1 - group) * kVector);
  return (kind == kLate ? 4 : 3) * 2 * tensor + columns * (is_wide(kind) ? s.size : static_cast<int>(sizeof(float)));
}

inline int warps_of_block(const Shape& s, int group, const Device& device, bool clusters) {
  return least(most_warps(s, clusters), (device.shared_per_block - kScratch) / warp_bytes(s, kAligned, group));
}

// Whole multiprocessors: a cluster's blocks lie within one group of them, and of some groups a few are left over. Wide
// rows without dsum by fifteen or sixteen warps are slower on all of them.
inline int64_t blocks_at_once(const Shape& s, const Device& device, const Plan& plan) {
  const bool full = plan.kind == kWide && !s.adds && plan.teams * plan.team_warps >= kTeamWarps - 1;
  const bool some = plan.cluster && (plan.parts > 2 || full);
  return some ? device.multiprocessors * int64_t{15} / 16 : device.multiprocessors;
}

// Of `parts` blocks each. Of clusters as many times those that fit with one block a multiprocessor: of eight blocks,
// three a multiprocessor, 45 have a place, not 46, and the last would take as long as all before it.
inline int64_t groups_at_once(int64_t blocks, const Plan& plan, int a_multiprocessor) {
  const int64_t groups = plan.cluster ? blocks / plan.parts * a_multiprocessor : blocks * a_multiprocessor / plan.parts;
  return groups < 1 ? 1 : groups;
}

inline void set_lanes(const Shape& s, Plan* plan) {
  const int64_t lanes = s.cols <= warp_columns(kAligned)
                            ? ratio_up(ratio_up(s.cols * s.size, kVector), kThreadColumns * s.size / kVector)
                            : kWarp;
  plan->group = 1;
  while (plan->group < lanes) plan->group *= 2;
}

// As many teams a block as fit, unless rows are so few that multiprocessors would stand idle. Of kernels of clusters
// only the wide one has more than one.
inline void set_teams(const Shape& s, const Device& device, int warps, Plan* plan) {
  const int64_t rows_a_team = kWarp / plan->group, wanted = ratio_up(s.rows, rows_a_team);
  const int room = warps / plan->team_warps;
  const int fit = plan->parts == 1 ? room : plan->kind == kWide ? least(room, kWideTeams) : 1;
  plan->teams = least(fit, ratio_up(wanted, groups_at_once(blocks_at_once(s, device, *plan), *plan, 1)));
  if (plan->teams < 1) plan->teams = 1;
  plan->shared = plan->teams * plan->team_warps * warp_bytes(s, plan->kind, plan->group);
  const int by_warps = warps / (plan->teams * plan->team_warps);
  const int scratch = plan->kind == kPhasedWide ? kPhasedWideScratch : kScratch;
  const int by_shared = device.shared_per_multiprocessor / (plan->shared + scratch);
  const int fit_at_once = by_warps < by_shared ? by_warps : by_shared,
            a_multiprocessor = fit_at_once < 1 ? 1 : fit_at_once;
  const int64_t at_once = groups_at_once(blocks_at_once(s, device, *plan), *plan, a_multiprocessor);
  const int64_t all = ratio_up(wanted, plan->teams);
  plan->partials = at_once < all ? at_once : all;
  if (plan->times == 1 && plan->partials > plan->period) plan->partials -= plan->partials % plan->period;
  plan->rows_a_turn = plan->partials * plan->teams * rows_a_team;
}

// Blocks that share a row, each with at most so many warps.
inline int parts_for(int64_t cols, int warps, Kind kind = kAligned) {
  int parts = 1;
  while (ratio_up(ratio_up(cols, warp_columns(kind)), parts) > least(warps, kTeamWarps)) parts *= 2;
  return parts;
}

// Whether it does: with half the warps a row that a multiprocessor has registers for, so that two rows are at different
// points. Rows on 16 bytes are two teams', which leave one sum of their columns; others two blocks'.
inline bool set_wide(const Shape& s, Kind kind, Plan* plan) {
  const int parts = parts_for(s.cols, kTeamWarps / 2, kind);
  if (!s.plain || parts == 1 || parts > kClusterParts) return false;
  plan->kind = kind;
  plan->parts = parts;
  return true;
}

// If it fits; with two blocks a multiprocessor, which are at different points of their rows, where a cluster may be so
// large.
inline void set_late(const Shape& s, const Device& device, Plan* plan) {
  const int parts = plan->parts > 2 ? kClusterParts : plan->parts;
  const int64_t warps = ratio_up(ratio_up(s.cols, warp_columns(kLate)), parts);
  if (warps * warp_bytes(s, kLate, plan->group) + kScratch > device.shared_per_block) return;
  plan->kind = kLate;
  plan->parts = parts;
}

inline void set_period(const Shape& s, const Device& device, int warps, Plan* plan) {
  plan->period = plan->sectors ? s.sectors : s.period;
  plan->times = plan->cluster && plan->period > 1 ? 2 : 1;
  set_teams(s, device, warps, plan);
}

// Rows off 16 bytes as if they were on them, a few elements longer. Clusters are too few for each to have rows that
// begin alike. Not where blocks are fewer than beginnings, nor where a row may have no whole vector.
inline bool set_phased(Shape s, const Device& device, Plan* plan) {
  constexpr int64_t kFewestCols = 64;
  if (s.period == 0 || s.size != 2 || s.cols < kFewestCols) return false;
  s.cols += kVector / s.size - 1;
  s.aligned = true;
  Plan phased;
  set_lanes(s, &phased);
  const int warps = least(kTeamWarps, warps_of_block(s, phased.group, device, true));
  phased.parts = parts_for(s.cols, warps);
  if (phased.parts > kClusterParts) return false;
  phased.kind = kPhased;
  if (phased.parts > 1) set_wide(s, kPhasedWide, &phased);
  phased.cluster = phased.parts > 1;
  phased.team_warps = static_cast<int>(ratio_up(ratio_up(s.cols, warp_columns(phased.kind)), phased.parts));
  phased.sectors = phased.kind == kPhasedWide && s.sectors > 0;
  set_period(s, device, warps, &phased);
  if (phased.sectors && phased.partials < phased.period) {
    phased.sectors = false;
    set_period(s, device, warps, &phased);
  }
  constexpr int64_t kMostRows = int64_t{1} << 31;  // that a kernel can put in order
  // Groups that have two sets of rows have fewer of them, where they are many. None may come to three.
  const bool many = s.rows >= kFewestToPause * phased.partials && 4 * phased.partials >= 5 * phased.period;
  if (phased.kind == kPhasedWide && phased.times > 1 && many) phased.pause = kPause;
  if (phased.partials < phased.period || (phased.times > 1 && s.rows > kMostRows)) return false;
  *plan = phased;
  return true;
}

// Narrow rows of pieces of 8 bytes, of which a lane has kDensePieces: an even number a warp, which begin and end on 16.
// Their lanes are fewer than half a warp's: so far the kernel adds round them.
inline bool set_dense(const Shape& s, const Device& device, Plan* plan) {
  const int64_t pieces = s.cols / 4, lanes = ratio_up(pieces, kDensePieces);
  if (!s.dense || s.cols % 4 != 0 || lanes >= kWarp / 2) return false;
  const int stages = 3, tensors = 3, run = kWarp * kDensePieces * 8;
  plan->kind = kDense;
  plan->group = static_cast<int>(lanes);
  const int64_t rows_a_warp = plan->rows_a_warp(), wanted = ratio_up(s.rows, rows_a_warp);
  const int fit = least(kDenseWarps, device.shared_per_block / (stages * tensors * run));
  plan->teams = least(fit, ratio_up(wanted, device.multiprocessors));
  plan->shared = plan->teams * stages * tensors * run;
  plan->partials = least(device.multiprocessors, ratio_up(wanted, plan->teams));
  plan->rows_a_turn = plan->partials * plan->teams * rows_a_warp;
  return true;
}

inline Plan plan_for(Shape s, const Device& device, uint32_t features) {
  const bool clusters = (features & KW_FEATURE_CLUSTER) != 0;
  Plan plan;
  // Measured only where KW_FEATURE_WGMMA is.
  if (!s.aligned && (features & KW_FEATURE_WGMMA) != 0 && set_dense(s, device, &plan)) return plan;
  if (!s.aligned && (features & KW_FEATURE_WGMMA) != 0 && set_phased(s, device, &plan)) return plan;
  set_lanes(s, &plan);
  int warps = warps_of_block(s, plan.group, device, clusters);
  if (clusters && parts_for(s.cols, warps) > kClusterParts) {
    s.aligned = false;  // only these kernels have more parts than a cluster has blocks
    warps = warps_of_block(s, plan.group, device, clusters);
  }
  plan.kind = s.aligned ? kAligned : kShifted;
  plan.parts = parts_for(s.cols, warps);
  plan.cluster = clusters && plan.parts > 1 && plan.parts <= kClusterParts;
  // Again only where it was measured. Not where little is done with a row: there memory is the limit.
  const bool much = (features & KW_FEATURE_WGMMA) != 0 && s.size == 2 && (s.centered || s.adds);
  const bool wide = much && plan.cluster && s.aligned && s.centered && set_wide(s, kWide, &plan);
  if (much && plan.cluster && s.aligned && !wide) set_late(s, device, &plan);
  if (wide) warps = kTeamWarps;
  plan.team_warps = static_cast<int>(ratio_up(ratio_up(s.cols, warp_columns(plan.kind)), plan.parts));
  // Blocks that leave some of a multiprocessor's registers unused are slower than those of rows in phase with dsum, and
  // without where eight share a row.
  const bool slower = wide && 2 * plan.team_warps < kTeamWarps && (s.adds || plan.parts == kClusterParts);
  Plan phased;
  if (slower && set_phased(s, device, &phased) && phased.kind == kPhasedWide) return phased;
  set_teams(s, device, warps, &plan);
  return plan;
}

inline Plan plan_for(const NormBackward& a, const Device& device, uint32_t features) {
  const bool plain = a.dtype == KW_BFLOAT16 && (a.weight == nullptr || a.weight_dtype == a.dtype);
  return plan_for({a.rows, a.cols, static_cast<int>(size_of(a.dtype)), aligned(a), a.centered, a.dsum != nullptr,
                   period_of(a, kVector), plain, dense(a), period_of(a, kSector)},
                  device, features);
}

// Enough for every type and alignment. One row of sums needs none: it is the result.
inline int64_t workspace_bytes(int64_t rows, int64_t cols, bool centered, const Device& device, uint32_t features) {
  int64_t most = 0;
  for (int size = 2; size <= 4; size += 2) {
    Shape shapes[] = {{rows, cols, size, true, centered},
                      {rows, cols, size, true, centered, true},
                      {rows, cols, size, false, centered},
                      {rows, cols, size, false, centered, false, 1},
                      {rows, cols, size, false, centered, false, 2},
                      {rows, cols, size, false, centered, false, 4},
                      {rows, cols, size, false, centered, false, 8}};
    for (Shape& shape : shapes) {
      for (int of_bfloat16 = 0; of_bfloat16 <= (size == 2 ? 2 : 0); ++of_bfloat16) {
        shape.plain = of_bfloat16 == 1;
        shape.dense = of_bfloat16 == 2;
        const int64_t sums = plan_for(shape, device, features).sums();
        if (sums > 1 && sums > most) most = sums;
      }
    }
  }
  return most * whole_quads(cols) * static_cast<int64_t>(sizeof(float)) * (centered ? 2 : 1);
}

}  // namespace kw::norm_backward_plan
