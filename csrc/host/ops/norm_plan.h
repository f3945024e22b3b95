// SPDX-License-Identifier: MIT
// Which kernel of csrc/cuda/{rms,layer}_norm.cu a call gets, and in what geometry. Sizes follow from the shape, the
// number of multiprocessors and the image's features; the constants were measured on an H200 (benchmarks/results/).
#pragma once

#include <stdint.h>

#include "../launch.h"
#include "norm.h"

namespace kw::norm_plan {

constexpr int kWarp = 32;
constexpr int kVector = 16;  // bytes of the widest load
// As in csrc/cuda/include/norm_*.cuh.
constexpr int kSlots = 4;
constexpr int kScalarSlots = 8;
constexpr int kTrickleSlots = 4 * kScalarSlots;  // four turns of a loop: fewer threads were faster
constexpr int kFlatThreads = 256;
constexpr int64_t kFlatBytes = kFlatThreads * kSlots * kVector;
constexpr int64_t kFlatCols = 512;
constexpr int kMaxCluster = 8;  // what every GPU with clusters can place

// The order of a type's kernels. One with a residual follows the one without; the last two serve both.
enum Shape {
  kRow,
  kRowAdd,
  kShifted,
  kShiftedAdd,
  kNarrow,
  kNarrowAdd,
  kFlat,
  kFlatAdd,
  kStream,
  kStreamAdd,
  kScalar,
  kTrickle,
  kShapes
};

// The most threads a block of the kernel may have: its __launch_bounds__, of RMS norm and of LayerNorm.
constexpr int kMaxThreads[2][kShapes] = {{768, 1024, 640, 1024, 64, 64, 256, 256, 1024, 512, 64, 1024},
                                         {640, 1024, 576, 1024, 64, 64, 256, 256, 512, 512, 64, 1024}};

// Threads of a multiprocessor that the registers of the kernels leave room for: of `row` without and with a residual,
// and of `stream`.
constexpr int kRowRoom[2][2] = {{1536, 1024}, {1280, 1024}};
constexpr int kStreamRoom[2][2] = {{2048, 1024}, {1536, 1024}};

struct Plan {
  Shape shape = kTrickle;
  int threads = kWarp;
  int slots = 1;  // units a thread
  int cluster_log2 = 0;
  bool row_is_a_warp = false;
  bool large = false;  // the tensors are far larger than L2
  int group = 1;       // lanes a row
  int64_t rows_a_block = 1;
};

// How far off 16 bytes the rows of the tensors lie.
struct Alignment {
  bool alike = true;  // every row begins equally far off in all tensors
  bool whole = true;  // every row begins and ends on 16 bytes
  bool dense = true;  // the first row begins on 16 bytes, and rows follow each other without a gap
};

inline Alignment alignment_of(const Norm& a) {
  const uintptr_t size = static_cast<uintptr_t>(size_of(a.dtype));
  const void* data[] = {a.x, a.y, a.residual, a.sum};
  const int64_t stride[] = {a.x_stride, a.y_stride, a.residual_stride, a.sum_stride};
  const bool one_row = a.rows == 1;
  uintptr_t off = reinterpret_cast<uintptr_t>(a.weight) | reinterpret_cast<uintptr_t>(a.bias) |
                  static_cast<uintptr_t>(a.cols) * size;
  uintptr_t difference = 0;
  Alignment result;
  for (int i = 0; i < 4; ++i) {
    if (data[i] == nullptr) continue;
    const uintptr_t start = reinterpret_cast<uintptr_t>(data[i]);
    const uintptr_t pitch = one_row ? 0 : static_cast<uintptr_t>(stride[i]) * size;
    const uintptr_t x_pitch = one_row ? 0 : static_cast<uintptr_t>(stride[0]) * size;
    off |= start | pitch;
    difference |= (start - reinterpret_cast<uintptr_t>(a.x)) | (pitch - x_pitch);
    if (start % kVector != 0 || !(one_row || stride[i] == a.cols)) result.dense = false;
  }
  result.alike = difference % kVector == 0;
  result.whole = off % kVector == 0;
  return result;
}

inline int64_t ratio_up(int64_t n, int64_t d) { return (n + d - 1) / d; }

inline int64_t whole_warps(int64_t threads) { return ratio_up(threads, kWarp) * kWarp; }

inline int power_of_two_from(int64_t n) {
  int power = 1;
  while (power < n) power *= 2;
  return power;
}

// Lanes of a warp share a row of `units`; a warp holds several rows.
inline void plan_narrow(const Norm& a, const Device& device, int64_t units, int slots, Plan* plan) {
  plan->group = power_of_two_from(units);
  const int64_t rows_a_warp = int64_t{kWarp} / plan->group * slots;
  const int warps = a.rows >= 2 * rows_a_warp * device.multiprocessors ? 2 : 1;
  plan->threads = warps * kWarp;
  plan->rows_a_block = rows_a_warp * warps;
}

// As many rows a block as it has room for, or as few as keep every multiprocessor busy; in steps that end on 16 bytes.
inline void plan_flat(const Norm& a, const Device& device, Plan* plan) {
  const int64_t row_bytes = a.cols * size_of(a.dtype);
  int64_t step = 1;
  while (step * row_bytes % kVector != 0) step *= 2;
  const int64_t room = kFlatBytes / row_bytes, busy = ratio_up(a.rows, 2 * device.multiprocessors);
  const int64_t rows = (busy < room ? busy : room) / step * step;
  plan->rows_a_block = rows < step ? step : rows;
  plan->threads = kFlatThreads;
  const int64_t units = ratio_up(row_bytes, kVector);
  while (plan->group < kWarp && plan->group < units && 2 * plan->group * plan->rows_a_block <= kFlatThreads)
    plan->group *= 2;
}

// Units a thread: as few as let all rows be at work at once; if that cannot be, what keeps memory busiest.
inline int slots_for(const Norm& a, const Device& device, int64_t units, bool add) {
  const int64_t room = int64_t{device.multiprocessors} * kRowRoom[a.centered][add];
  for (int slots = 1; slots <= kSlots; ++slots) {
    if (a.rows * whole_warps(ratio_up(units, slots)) <= room) return slots;
  }
  if (units <= kWarp * kSlots) return kSlots;
  return units <= 512 ? 2 : units <= 1280 ? 3 : 4;
}

// One warp, one block or one cluster a row of `units`, of which a thread holds up to `slots`.
inline void plan_row(const Norm& a, const Device& device, int64_t units, int slots, int max_cluster, Plan* plan) {
  const int most = kMaxThreads[a.centered][plan->shape];
  while (ratio_up(units, slots) > int64_t{most} * max_cluster && slots < kSlots) ++slots;
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
  const int block = (threads > 1024 && plan->shape < kShifted) || a.rows <= device.multiprocessors ? 256 : 512;
  while ((threads >> plan->cluster_log2) > block && (2 << plan->cluster_log2) <= max_cluster) ++plan->cluster_log2;
  const int64_t share = whole_warps(ratio_up(threads, int64_t{1} << plan->cluster_log2));
  plan->threads = static_cast<int>(share < most ? share : most);
}

// Many long rows, few enough at work at once to be still in L2 when they are read again: measured only where
// KW_FEATURE_WGMMA is. Each block reads its row with two units a thread at a time.
inline bool plan_stream(const Norm& a, const Device& device, uint32_t features, int64_t units, Plan* plan) {
  const bool add = a.residual != nullptr;
  if ((features & KW_FEATURE_WGMMA) == 0 || units < 512) return false;
  const int64_t bytes = units * kVector * (add ? 2 : 1);
  const int64_t most = kMaxThreads[a.centered][kStream + add];
  const int64_t threads = units > 2048 ? most : units >= 1024 ? 512 : whole_warps(ratio_up(units, 2));
  const int64_t room = kStreamRoom[a.centered][add], blocks = device.multiprocessors * (room / threads);
  if (room % threads > room / 10) return false;
  if (!plan->large || blocks * bytes > device.l2 / 3) return false;
  plan->threads = static_cast<int>(threads);
  return true;
}

inline Plan plan_for(const Norm& a, const Device& device, uint32_t features) {
  const Alignment alignment = alignment_of(a);
  const int64_t count = kVector / size_of(a.dtype), units = ratio_up(a.cols, count);
  const bool add = a.residual != nullptr;
  const auto with = [add](Shape shape) { return static_cast<Shape>(shape + (add ? 1 : 0)); };
  Plan plan;
  plan.large = a.rows * a.cols * size_of(a.dtype) * (add ? 4 : 2) > int64_t{4} * device.l2;
  if (alignment.whole && units <= kWarp) {
    plan.shape = with(kNarrow);
    plan_narrow(a, device, units, kSlots, &plan);
  } else if (!a.centered && !alignment.whole && alignment.dense && a.cols >= count && a.cols <= kFlatCols) {
    plan.shape = with(kFlat);
    plan_flat(a, device, &plan);
  } else if (a.cols <= kWarp) {
    plan.shape = kScalar;
    plan_narrow(a, device, a.cols, kScalarSlots, &plan);
  } else if (alignment.whole && plan_stream(a, device, features, units, &plan)) {
    plan.shape = with(kStream);
  } else {
    const int max_cluster = (features & KW_FEATURE_CLUSTER) != 0 ? kMaxCluster : 1;
    plan.shape = with(alignment.whole ? kRow : kShifted);
    const bool held = units <= int64_t{kMaxThreads[a.centered][plan.shape]} * kSlots * max_cluster;
    if (held && (alignment.whole || alignment.alike)) {
      plan_row(a, device, units, slots_for(a, device, units, add), max_cluster, &plan);
    } else if (alignment.whole) {
      plan.shape = with(kStream);
      plan_row(a, device, units, kSlots, 1, &plan);
    } else {
      plan.shape = kTrickle;
      plan_row(a, device, a.cols, kTrickleSlots, 1, &plan);
    }
  }
  return plan;
}

}  // namespace kw::norm_plan
