// SPDX-License-Identifier: MIT
// In what geometry the derivatives of a norm are computed (csrc/ops/norm/device/backward.cuh, few_rows.cuh). Sizes
// follow from the shape, the device and the image's features; the constants were measured on an H200
// (benchmarks/ops/norm).
#pragma once

#include <stdint.h>

#include "core/launch.h"
#include "core/sizes.h"
#include "ops/norm/geometry.h"
#include "ops/norm/host/norm.h"

namespace kw::norm_backward_plan {

constexpr int kWarp = 32;
constexpr int kVector = 16;        // bytes
constexpr int kScratch = 3 << 10;  // bytes of shared memory a block has or loses besides

// How rows lie, and when their derivatives follow: with the row after, or, where a cluster has to agree on their sums,
// one later. Where they are wide, a thread has twice as many columns.
enum Kind { kUnaligned, kAligned, kLate, kWide, kKinds };

inline int warp_columns(Kind kind) { return kWarp * (kind == kWide ? kWideColumns : kThreadColumns); }

// `parts` blocks share a row: a cluster, or else each reads all of it. In a block, teams of warps have a row each.
struct Plan {
  Kind kind = kUnaligned;
  bool cluster = false;
  int group = kWarp;  // lanes a row: fewer than a warp's where rows are narrow
  int team_warps = 1;
  int teams = 1;
  int parts = 1;
  int shared = 0;           // bytes a block
  int64_t partials = 0;     // groups of `parts` blocks, and rows of partial sums that they leave
  int64_t rows_a_turn = 1;  // that all blocks together do
};

// What decides: of a call, or of one that might come.
struct Shape {
  int64_t rows, cols;
  int size;  // bytes of an element
  bool aligned, centered;
  bool adds = false;   // there is a dsum
  bool plain = false;  // of 16 bits, with weights of their type or none: only these have wide kernels
};

inline int least(int64_t a, int64_t b) { return static_cast<int>(a < b ? a : b); }

// Whether rows of all tensors begin and end on 16 bytes.
inline bool aligned(const NormBackward& a) {
  const uintptr_t size = size_of(a.dtype);
  const void* data[] = {a.dx, a.dy, a.h, a.dsum};
  const int64_t stride[] = {a.dx_stride, a.dy_stride, a.h_stride, a.dsum_stride};
  uintptr_t off = static_cast<uintptr_t>(a.cols) * size;
  for (int i = 0; i < 4; ++i) {
    if (data[i] == nullptr) continue;
    off |= reinterpret_cast<uintptr_t>(data[i]);
    if (a.rows > 1) off |= static_cast<uintptr_t>(stride[i]) * size;
  }
  return off % kVector == 0;
}

// The most warps of a block: the kernel's __launch_bounds__.
inline int most_warps(const Shape& s, bool clusters) {
  const bool few = !clusters || !s.aligned || s.size == 4;
  return (few ? kBackwardThreads : s.centered ? kLayerBackwardThreads : kRmsBackwardThreads) / kWarp;
}

// Shared memory of a warp: the rows on their way, and weights, as float32 unless they are wide rows'. Rows off 16 bytes
// take a vector more each, and one row of dsum.
inline int warp_bytes(const Shape& s, Kind kind, int group) {
  const bool apart = kind == kUnaligned;
  const int columns = warp_columns(kind), tensor = columns * s.size + (apart ? kWarp / group * kVector : 0);
  const int rows = (kind == kLate ? 4 : 3) * 2 + (apart && s.adds ? 1 : 0);
  return rows * tensor + columns * (kind == kWide ? s.size : static_cast<int>(sizeof(float)));
}

inline int warps_of_block(const Shape& s, int group, const Device& device, bool clusters) {
  const int bytes = warp_bytes(s, s.aligned ? kAligned : kUnaligned, group);
  return least(most_warps(s, clusters), (device.shared_per_block - kScratch) / bytes);
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
  const int64_t lanes = s.cols <= warp_columns(kAligned) ? ratio_up(s.cols, kThreadColumns) : kWarp;
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
  const int by_shared = device.shared_per_multiprocessor / (plan->shared + kScratch);
  const int fit_at_once = by_warps < by_shared ? by_warps : by_shared,
            a_multiprocessor = fit_at_once < 1 ? 1 : fit_at_once;
  const int64_t at_once = groups_at_once(blocks_at_once(s, device, *plan), *plan, a_multiprocessor);
  const int64_t all = ratio_up(wanted, plan->teams);
  plan->partials = at_once < all ? at_once : all;
  plan->rows_a_turn = plan->partials * plan->teams * rows_a_team;
}

// Blocks that share a row, each with at most so many warps.
inline int parts_for(int64_t cols, int warps, Kind kind = kAligned) {
  int parts = 1;
  while (ratio_up(ratio_up(cols, warp_columns(kind)), parts) > least(warps, kTeamWarps)) parts *= 2;
  return parts;
}

// Columns' worth of warps that teams of rows keep at work, of a multiprocessor's.
inline double warps_at_work(int64_t cols, int parts) {
  const double warps = static_cast<double>(cols) / warp_columns(kWide) / parts;
  const int team_warps = static_cast<int>(ratio_up(ratio_up(cols, warp_columns(kWide)), parts));
  return least(kTeamWarps / team_warps, kWideTeams) * warps;
}

// Whether it does: with half the warps a row that a multiprocessor has registers for, so that two rows or more are at
// different points. With dsum by more blocks where that leaves fewer warps idle.
inline bool set_wide(const Shape& s, Plan* plan) {
  int parts = parts_for(s.cols, kTeamWarps / 2, kWide);
  if (!s.plain || parts == 1 || parts > kClusterParts) return false;
  if (s.adds && 2 * parts <= kClusterParts && warps_at_work(s.cols, 2 * parts) > 1.1 * warps_at_work(s.cols, parts))
    parts *= 2;
  plan->kind = kWide;
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

inline Plan plan_for(Shape s, const Device& device, uint32_t features) {
  const bool clusters = (features & KW_FEATURE_CLUSTER) != 0;
  Plan plan;
  set_lanes(s, &plan);
  int warps = warps_of_block(s, plan.group, device, clusters);
  if (clusters && parts_for(s.cols, warps) > kClusterParts) {
    s.aligned = false;  // only these kernels have more parts than a cluster has blocks
    warps = warps_of_block(s, plan.group, device, clusters);
  }
  plan.kind = s.aligned ? kAligned : kUnaligned;
  plan.parts = parts_for(s.cols, warps);
  plan.cluster = clusters && plan.parts > 1 && plan.parts <= kClusterParts;
  // Measured only where KW_FEATURE_WGMMA is. RMS norm gains nothing where little is done with a row: there memory is
  // the limit.
  if ((features & KW_FEATURE_WGMMA) != 0 && s.size == 2 && plan.cluster && s.aligned) {
    if (s.centered && set_wide(s, &plan)) warps = kTeamWarps;
    if (!s.centered && s.adds) set_late(s, device, &plan);
  }
  plan.team_warps = static_cast<int>(ratio_up(ratio_up(s.cols, warp_columns(plan.kind)), plan.parts));
  set_teams(s, device, warps, &plan);
  return plan;
}

inline Plan plan_for(const NormBackward& a, const Device& device, uint32_t features) {
  const bool plain = a.dtype != KW_FLOAT32 && (a.weight == nullptr || a.weight_dtype == a.dtype);
  return plan_for(
      {a.rows, a.cols, static_cast<int>(size_of(a.dtype)), aligned(a), a.centered, a.dsum != nullptr, plain}, device,
      features);
}

// Enough for every type and alignment. One row of sums needs none: it is the result.
inline int64_t workspace_bytes(int64_t rows, int64_t cols, bool centered, const Device& device, uint32_t features) {
  int64_t most = 0;
  for (int which = 0; which < 16; ++which) {
    const bool aligned = which % 2 != 0, adds = which / 2 % 2 != 0, plain = which / 4 % 2 != 0;
    const Shape shape{rows, cols, which < 8 ? 2 : 4, aligned, centered, adds, plain};
    const int64_t sums = plan_for(shape, device, features).partials;
    if (sums > 1 && sums > most) most = sums;
  }
  return most * cols * static_cast<int64_t>(sizeof(float)) * (centered ? 2 : 1);
}

// The second pass, over what blocks have left. A block has `width` units of columns side by side, of `count` sums each,
// and for each of its warps as many sums in shared memory.
struct Reduction {
  int count, width, threads, shared;
  int64_t blocks;  // for dweight, and as many for dbias
};

// `cols`: sums from one row of them to the next; the first begins on 16 bytes, as the workspace does.
inline Reduction reduction_for(int64_t cols, int64_t partials, bool centered, const Device& device) {
  constexpr int kSector = 8;  // sums
  Reduction plan;
  plan.count = cols % kPartialsQuad == 0 ? kPartialsQuad : 1;
  plan.width = kWarp;
  // Small enough for every multiprocessor to have some.
  const int64_t units = cols / plan.count, all = units * (centered ? 2 : 1);
  while (plan.width * plan.count > kSector && all < int64_t{plan.width} * device.multiprocessors) plan.width /= 2;
  plan.blocks = ratio_up(units, plan.width);
  plan.threads = kPartialsFewestWarps * kWarp;
  while (plan.threads < kPartialsThreads && plan.threads * kPartialsAhead < plan.width * partials) plan.threads *= 2;
  plan.shared = plan.threads / kWarp * plan.width * plan.count * static_cast<int>(sizeof(float));
  return plan;
}

}  // namespace kw::norm_backward_plan

// Where rows are few.
namespace kw::norm_few_rows {

using norm_backward_plan::kVector;
using norm_backward_plan::kWarp;

constexpr int64_t kMostRows = 2048;
constexpr int64_t kFewestCols = 1024;  // narrower rows would be small blocks', and few blocks' columns

// Of what the second kernel needs: mean and rstd, or rstd alone.
inline int64_t statistics_bytes(int64_t rows, bool centered) {
  return rows > 1 && rows <= kMostRows ? rows * (centered ? 8 : 4) : 0;
}

// Whether all of it can be loaded and stored by 16 bytes, and what is read twice stays in L2.
inline bool suits(const NormBackward& a, const Device& device, uint32_t features) {
  const int64_t bytes = a.cols * size_of(a.dtype);
  const uintptr_t parameters = reinterpret_cast<uintptr_t>(a.weight) | reinterpret_cast<uintptr_t>(a.dweight) |
                               reinterpret_cast<uintptr_t>(a.dbias);
  return (features & KW_FEATURE_PDL) != 0 && a.rows <= kMostRows && a.cols >= kFewestCols &&
         bytes <= kVector * kFewSlots * kFewThreads && 2 * a.rows * bytes <= device.l2 / 2 &&
         norm_backward_plan::aligned(a) && parameters % kVector == 0;
}

// A unit a thread where multiprocessors have little else to do.
inline uint32_t row_threads(const NormBackward& a, const Device& device) {
  const int64_t units = a.cols * size_of(a.dtype) / kVector;
  const bool one = units <= kFewThreads && a.rows * units <= int64_t{512} * device.multiprocessors;
  return static_cast<uint32_t>(ratio_up(one ? units : ratio_up(units, kFewSlots), kWarp) * kWarp);
}

// Units of columns a block: as many as leave every multiprocessor some.
inline uint32_t columns_lanes(int64_t units, const Device& device) {
  return units >= int64_t{3} * device.multiprocessors ? 4 : 2;
}

inline uint32_t columns_threads(int64_t rows, uint32_t lanes) {
  uint32_t threads = 64;
  while (threads < kFewColumnsThreads && threads * kFewColumnsAhead < rows * lanes) threads *= 2;
  return threads;
}

}  // namespace kw::norm_few_rows
