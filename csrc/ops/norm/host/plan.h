// SPDX-License-Identifier: MIT
// Which forward kernel of csrc/ops/norm/device a call gets, and in what geometry. Sizes follow from the shape, the
// number of multiprocessors and the image's features; the constants were measured on an H200 (benchmarks/ops/norm).
#pragma once

#include <stdint.h>

#include "core/launch.h"
#include "core/sizes.h"
#include "ops/norm/geometry.h"
#include "ops/norm/host/norm.h"

namespace kw::norm_plan {

constexpr int kWarp = 32;
constexpr int kVector = 16;                 // bytes of the widest load
constexpr int kWarpCols = 1024;             // of unaligned rows that are a warp's, at most
constexpr int kPartBytes = 56 << 10;        // that a block has of an unaligned row, about: four at once
constexpr int kUnalignedScratch = 2 << 10;  // bytes of shared memory besides
constexpr int kStagedBytes = kStagedThreads * kStagedTurns * kVector;  // of a run
constexpr int kMaxCluster = 8;                                         // what every GPU with clusters can place

// The order of a type's kernels. All but kRow and kStream may have a residual.
enum Shape { kNarrow, kRow, kLong, kUnaligned, kStaged, kStream, kWarpRow, kShapes };

// What one block of a kernel has room for: threads, vectors or elements of each, and threads of a multiprocessor at
// once, as registers allow.
struct Room {
  int threads, slots, at_once;
};

constexpr Room room_of(bool centered, bool adds, Shape shape) {
  if (shape == kRow) {
    const int threads = centered ? kLayerRowThreads : kRmsRowThreads;
    return {threads, kRowSlots, threads * kRowBlocks};
  }
  return adds ? Room{kLongThreads, kRowSlots, kLongThreads} : Room{kLongThreads / 2, kLongSlots, kLongThreads};
}

inline Room room_of(const Norm& a, Shape shape) { return room_of(a.centered, a.residual != nullptr, shape); }

// A cluster holds any row: only images for GPUs without clusters read a part of it twice.
constexpr bool clusters_hold_all() {
  for (int norm = 0; norm < 4; ++norm) {
    const Room room = room_of(norm % 2 != 0, norm / 2 != 0, kLong);
    if (int64_t{room.threads} * room.slots * kMaxCluster < kMaxCols * 4 / kVector) return false;
  }
  return 2 * kMaxCols * 4 / kMaxCluster + kUnalignedScratch <= 96 << 10;  // what every GPU with clusters has a block
}
static_assert(clusters_hold_all());

struct Plan {
  Shape shape = kUnaligned;
  int threads = kWarp;
  int slots = 1;  // vectors a thread
  int part = 0;   // unaligned: columns of a warp or block
  int held = 0;   // and how many of them are in shared memory
  int shared = 0;
  int cluster_log2 = 0;
  bool row_is_a_warp = false;
  bool large = false;  // the tensors are far larger than L2
  bool keep = false;   // L2 is to keep what is read longest
  int group = 1;       // lanes a row
  int64_t rows_a_block = 1;
};

// How far off 16 bytes the rows of the tensors lie.
struct Alignment {
  bool inputs_alike = true;  // every row begins equally far off in all tensors but y
  bool whole = true;         // every row begins and ends on 16 bytes, weight and bias too
  bool halves = true;        // the same on 8 bytes
  bool dense = true;         // rows follow each other without a gap
};

inline Alignment alignment_of(const Norm& a) {
  const uintptr_t size = static_cast<uintptr_t>(size_of(a.dtype));
  const void* data[] = {a.y, a.x, a.residual, a.sum};
  const int64_t stride[] = {a.y_stride, a.x_stride, a.residual_stride, a.sum_stride};
  const bool one_row = a.rows == 1;
  uintptr_t off = reinterpret_cast<uintptr_t>(a.weight) | reinterpret_cast<uintptr_t>(a.bias) |
                  static_cast<uintptr_t>(a.cols) * size;
  uintptr_t difference = 0;
  Alignment result;
  for (int i = 0; i < 4; ++i) {
    if (data[i] == nullptr) continue;
    const uintptr_t start = reinterpret_cast<uintptr_t>(data[i]);
    off |= start | (one_row ? 0 : static_cast<uintptr_t>(stride[i]) * size);
    if (i > 0) difference |= start - reinterpret_cast<uintptr_t>(a.x);
    if (!one_row && stride[i] != a.cols) result.dense = false;
  }
  result.inputs_alike = difference % kVector == 0;  // of rows without gaps, which is where it matters
  result.whole = off % kVector == 0;
  result.halves = off % (kVector / 2) == 0;
  return result;
}

inline int64_t whole_warps(int64_t threads) { return ratio_up(threads, kWarp) * kWarp; }

inline int power_of_two_from(int64_t n) {
  int power = 1;
  while (power < n) power *= 2;
  return power;
}

// Lanes of a warp share a row of `units`; a warp holds several rows.
inline void plan_narrow(const Norm& a, const Device& device, int64_t units, Plan* plan) {
  plan->shape = kNarrow;
  plan->group = power_of_two_from(units);
  const int64_t rows_a_warp = int64_t{kWarp} / plan->group * kRowSlots;
  const int warps = a.rows >= 2 * rows_a_warp * device.multiprocessors ? kNarrowThreads / kWarp : 1;
  plan->threads = warps * kWarp;
  plan->rows_a_block = rows_a_warp * warps;
}

// A row is a warp's, of four elements a lane: measured only where KW_FEATURE_WGMMA is.
inline bool plan_warp_row(const Norm& a, const Alignment& alignment, uint32_t features, Plan* plan) {
  const int64_t lanes = a.cols / kWarpRowColumns;
  if ((features & KW_FEATURE_WGMMA) == 0 || a.dtype != KW_BFLOAT16) return false;
  if (!alignment.halves || lanes > kWarp || lanes <= kWarp / 2) return false;
  plan->shape = kWarpRow;
  plan->threads = kWarpRowThreads;
  plan->rows_a_block = kWarpRowThreads / kWarp * kWarpRows;
  return true;
}

// Rows that lie as many bytes apart as this one's begin at so few places of shared memory's 128 bytes.
inline int64_t places(int64_t bytes) {
  int64_t count = 1;
  while (count < kWarp && bytes * count % (kWarp * 4) != 0) count *= 2;
  return count;
}

// As many rows a block as it has room for, or as few as keep every multiprocessor busy; such that they end on 16 bytes
// together, if there is room. Lanes a row: those with the least to do, about, in instructions.
inline void plan_staged(const Norm& a, const Device& device, Plan* plan) {
  const int64_t size = size_of(a.dtype), busy = ratio_up(a.rows, 2 * device.multiprocessors);
  const int64_t room = (kStagedBytes - kVector) / size / a.cols, rows = busy < room ? busy : room;
  int64_t step = 1;
  while (step * a.cols * size % kVector != 0) step *= 2;
  plan->shape = kStaged;
  plan->rows_a_block = rows < step ? rows : rows / step * step;
  plan->threads = kStagedThreads;
  const bool by_four = (reinterpret_cast<uintptr_t>(a.x) / size | static_cast<uintptr_t>(a.cols)) % 4 == 0;
  const int64_t pieces = by_four ? a.cols / 4 : a.cols;
  int64_t least = INT64_MAX;
  for (int group = 1, log2 = 0; group <= kWarp; group *= 2, ++log2) {
    const int64_t conflicts = ratio_up(kWarp / group, places(a.cols * 4)) - 1;
    const int64_t row = (14 + 8 * conflicts) * ratio_up(pieces, group) + 6 * log2 + 45;
    const int64_t cost = ratio_up(plan->rows_a_block * group, kStagedThreads) * row;
    if (cost >= least) continue;
    least = cost;
    plan->group = group;
  }
}

// RMS norm's many long rows, few enough at work at once to be still in L2 when they are read again: measured only where
// KW_FEATURE_WGMMA is.
inline bool plan_stream(const Norm& a, const Device& device, uint32_t features, int64_t units, Plan* plan) {
  if ((features & KW_FEATURE_WGMMA) == 0 || a.centered || a.residual != nullptr) return false;
  if (units < 512 || units >= 4096) return false;
  const int64_t threads = units > 2048    ? int64_t{kStreamThreads}
                          : units >= 1024 ? int64_t{kStreamThreads / 2}
                                          : whole_warps(ratio_up(units, 2));
  constexpr int64_t kRoom = 2048;
  const int64_t blocks = device.multiprocessors * (kRoom / threads);
  if (kRoom % threads > kRoom / 10 || !plan->large || blocks * units * kVector > device.l2 / 3) return false;
  plan->shape = kStream;
  plan->threads = static_cast<int>(threads);
  return true;
}

// LayerNorm's statistics take longer to pass between blocks: no cluster where one block will do, but for very few rows.
inline bool one_block(const Norm& a) { return a.centered && a.rows > 16; }

// Vectors a thread: as few as let all rows be at work at once; 0 if that cannot be.
inline int slots_at_once(const Norm& a, const Device& device, const Room& room, int64_t units) {
  const int64_t threads = int64_t{device.multiprocessors} * room.at_once;
  for (int slots = one_block(a) && units > 256 ? 2 : 1; slots <= room.slots; ++slots) {
    if (a.rows * whole_warps(ratio_up(units, slots)) <= threads) return slots;
  }
  return 0;
}

// What keeps memory busiest where there are many rows on 16 bytes. Long rows get the kernel that holds eight vectors a
// thread: LayerNorm's, whose statistics cost more; RMS norm's where one block can hold them, or four are too few.
inline int slots_for_many(const Norm& a, int64_t units, Plan* plan) {
  const bool adds = a.residual != nullptr;
  if (!adds && (a.centered ? units > 1024 : (units > 3072 && units <= 4096) || units > 8192)) {
    plan->shape = kLong;
    return kLongSlots;
  }
  // Float32 rows of RMS norm with a residual, in one block each: measured only where there are clusters.
  if (adds && !a.centered && a.dtype == KW_FLOAT32 && plan->large && units > 1280 && units <= 2112) return 3;
  if (units <= kWarp * kRowSlots) return kRowSlots;
  if (units <= 512) return a.centered ? (adds ? 3 : kRowSlots) : 2;
  return units <= 1280 && !a.centered ? 3 : kRowSlots;
}

// One warp, one block or one cluster a row of `units`, of which a thread holds up to `slots`.
inline void plan_row(const Norm& a, const Device& device, const Room& room, int64_t units, int slots, int most_blocks,
                     Plan* plan) {
  while (slots < room.slots && ratio_up(units, slots) > int64_t{room.threads} * most_blocks) ++slots;
  plan->slots = slots;
  const int64_t threads = ratio_up(units, slots);
  if (threads <= kWarp) {
    plan->row_is_a_warp = true;
    int warps = a.cols * size_of(a.dtype) >= 2048 ? 2 : 4;
    while (warps > 1 && a.rows < int64_t{warps} * device.multiprocessors) warps /= 2;
    plan->threads = warps * kWarp;
    plan->rows_a_block = warps;
    return;
  }
  // Small blocks make way for the next ones sooner; where rows are few, more multiprocessors read at once.
  const bool few = a.rows <= device.multiprocessors && !one_block(a), some = plan->shape == kRow || a.residual;
  const int64_t block = (threads > 1024 && some) || (threads > 512 && a.centered) || few ? 256 : 512;
  const bool whole = slots == 3 && a.dtype == KW_FLOAT32 && threads <= 704;  // slots_for_many() wants one block
  while (!whole && (threads >> plan->cluster_log2) > block && (2 << plan->cluster_log2) <= most_blocks)
    ++plan->cluster_log2;
  const int64_t share = whole_warps(ratio_up(threads, int64_t{1} << plan->cluster_log2));
  plan->threads = static_cast<int>(share < room.threads ? share : room.threads);
  const int64_t wanted = ratio_up(units, int64_t{plan->threads} << plan->cluster_log2);
  plan->slots = static_cast<int>(wanted < room.slots ? wanted : room.slots);  // without clusters the rest is read twice
}

// Of a warp or block that holds so many columns of a row.
inline int unaligned_bytes(const Norm& a, int held) {
  const int bytes = (held * static_cast<int>(size_of(a.dtype)) + kVector) / kVector * kVector + kVector;
  return a.residual != nullptr ? 2 * bytes : bytes;
}

// Rows by elements, through shared memory.
inline void plan_unaligned(const Norm& a, const Device& device, int most_blocks, Plan* plan) {
  const int size = static_cast<int>(size_of(a.dtype)), cols = static_cast<int>(a.cols);
  plan->shape = kUnaligned;
  plan->part = plan->held = cols;
  if (cols <= kWarpCols) {
    int warps = 4;
    while (warps > 1 && a.rows < int64_t{warps} * device.multiprocessors) warps /= 2;
    plan->row_is_a_warp = true;
    plan->threads = warps * kWarp;
    plan->rows_a_block = warps;
    plan->shared = warps * unaligned_bytes(a, cols);
    return;
  }
  const int64_t bytes = int64_t{cols} * size * (a.residual != nullptr ? 2 : 1);
  const auto more = [&](int log2) {  // or where rows are few, so that more multiprocessors read at once
    return (bytes >> log2) > kPartBytes || (a.rows << log2 < device.multiprocessors && (cols >> log2) >= 4096);
  };
  while ((2 << plan->cluster_log2) <= most_blocks && more(plan->cluster_log2)) ++plan->cluster_log2;
  plan->part = static_cast<int>(ratio_up(cols, int64_t{1} << plan->cluster_log2));
  const int64_t threads = whole_warps(ratio_up(plan->part, 16));
  plan->threads = static_cast<int>(threads < 128                 ? 128
                                   : threads < kUnalignedThreads ? threads
                                                                 : int64_t{kUnalignedThreads});
  plan->held = plan->part;
  while (unaligned_bytes(a, plan->held) + kUnalignedScratch > device.shared_per_block) plan->held -= 1024;
  plan->shared = unaligned_bytes(a, plan->held);
}

inline Plan plan_for(const Norm& a, const Device& device, uint32_t features) {
  const Alignment alignment = alignment_of(a);
  const int64_t units = ratio_up(a.cols, kVector / size_of(a.dtype));
  const bool adds = a.residual != nullptr;
  Plan plan;
  const int64_t bytes = a.rows * a.cols * size_of(a.dtype) * (adds ? 4 : 2);
  plan.large = bytes > int64_t{adds && !a.centered ? 2 : 4} * device.l2;
  // From where that pays is known only where KW_FEATURE_WGMMA is.
  plan.keep = plan.large || ((features & KW_FEATURE_WGMMA) != 0 && bytes > device.l2 / 4);
  const int most_blocks = (features & KW_FEATURE_CLUSTER) != 0 ? kMaxCluster : 1;
  if (alignment.whole && units <= kWarp) {
    plan_narrow(a, device, units, &plan);
  } else if (!alignment.whole && plan_warp_row(a, alignment, features, &plan)) {
    return plan;
  } else if (!alignment.whole && alignment.dense && alignment.inputs_alike && a.cols <= kStagedCols) {
    plan_staged(a, device, &plan);
  } else if (!alignment.whole) {
    plan_unaligned(a, device, most_blocks, &plan);
  } else if (!plan_stream(a, device, features, units, &plan)) {
    plan.shape = adds ? kLong : kRow;
    int slots = slots_at_once(a, device, room_of(a, plan.shape), units);
    if (slots == 0) slots = slots_for_many(a, units, &plan);
    const Room room = room_of(a, plan.shape);
    if (!adds && units > int64_t{room.threads} * room.slots * most_blocks) plan.shape = kLong;
    plan_row(a, device, room_of(a, plan.shape), units, slots, most_blocks, &plan);
  }
  return plan;
}

}  // namespace kw::norm_plan
