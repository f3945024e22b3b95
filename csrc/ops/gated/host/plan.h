// SPDX-License-Identifier: MIT
// Which kernel of csrc/ops/gated/swiglu.cu a call gets, and in what geometry; the constants were measured on an H200
// (benchmarks/ops/gated/notes/swiglu-notes.md).
#pragma once

#include <stdint.h>

#include "core/launch.h"
#include "core/sizes.h"
#include "ops/gated/geometry.h"
#include "ops/gated/host/swiglu.h"

namespace kw::swiglu_plan {

constexpr int64_t kVector = 16;  // bytes of the widest load
constexpr int64_t kMaxUnits = int64_t{1} << 31;

// The order of a type's kernels; a backward one follows the forward one.
enum Shape {
  kFlat,
  kFlatBackward,
  kRows,
  kRowsBackward,
  kShifted,
  kShiftedBackward,
  kElement,
  kElementBackward,
  kShapes
};

// Units a thread may have under way.
constexpr int kSlots[kShapes] = {kSwigluSlots,        kSwigluBackwardSlots, kSwigluSlots,        kSwigluBackwardSlots,
                                 kSwigluShiftedSlots, kSwigluShiftedSlots,  kSwigluElementSlots, kSwigluElementSlots};

constexpr int64_t kShortRow = 64;  // bytes; of a shorter row too little is whole vectors

struct Plan {
  Shape shape = kElement;
  int threads = kSwigluThreads;
  int slots = 1;
  int64_t unit_bytes = 0;
  int64_t skip = 0;  // elements of a row's first unit that lie before the row
  int64_t row_units = 0;
};

// Whether every row begins equally far off 16 bytes in all tensors.
inline bool alike(const Swiglu& a) {
  const void* data[] = {a.gate, a.up, a.out, a.dy, a.up_out};
  const int64_t stride[] = {a.gate_stride, a.up_stride, a.out_stride, a.dy_stride, a.up_out_stride};
  uintptr_t difference = 0;
  for (int i = 0; i < 5; ++i) {
    if (data[i] == nullptr) continue;
    difference |= reinterpret_cast<uintptr_t>(data[i]) - reinterpret_cast<uintptr_t>(a.gate);
    if (a.rows > 1) difference |= static_cast<uintptr_t>(stride[i] * int64_t{size_of(a.dtype)});
  }
  return difference % kVector == 0;
}

// As many units a thread as it can have under way, or as few as keep every multiprocessor busy.
inline void plan_threads(const Device& device, int64_t units, Plan* plan) {
  constexpr int64_t kBusy = 1024;  // units a multiprocessor
  while (plan->threads > 64 && ratio_up(units, plan->threads) < device.multiprocessors) plan->threads /= 2;
  while (plan->slots < kSlots[plan->shape] && units > kBusy * device.multiprocessors * plan->slots) plan->slots *= 2;
}

// `a` as kw_swiglu makes it: rows that follow each other without a gap are one.
inline Plan plan_for(const Swiglu& a, const Device& device) {
  const int64_t size = size_of(a.dtype), bytes = a.cols * size;
  const bool vectors = alike(a);
  const Shape shape = vectors ? a.rows == 1 ? kFlat : kRows : bytes < kShortRow ? kElement : kShifted;
  Plan plan;
  plan.shape = static_cast<Shape>(shape + (a.backward ? 1 : 0));
  plan.unit_bytes = shape == kElement ? size : kVector;
  if (vectors) plan.skip = static_cast<int64_t>(reinterpret_cast<uintptr_t>(a.gate) % kVector) / size;
  // A shifted row may begin off 16 bytes by any number of elements.
  plan.row_units = ratio_up(bytes + (shape == kShifted ? kVector - size : plan.skip * size), plan.unit_bytes);
  plan_threads(device, plan.row_units * a.rows, &plan);
  return plan;
}

}  // namespace kw::swiglu_plan
