// SPDX-License-Identifier: MIT
// The geometry of a norm's forward pass over short rows, several of which a warp has. The constants were measured on an
// H200 (benchmarks/results/).
#pragma once

#include "ops/norm/host/shape.h"

namespace kw::norm_plan {

// Lanes of a warp share a row of `units`; a warp holds several rows.
inline void plan_narrow(const Norm& a, const Device& device, int64_t units, int slots, Plan* plan) {
  plan->group = power_of_two_from(units);
  const int64_t rows_a_warp = int64_t{kWarp} / plan->group * slots;
  const int warps = a.rows >= 2 * rows_a_warp * device.multiprocessors ? 2 : 1;
  plan->threads = warps * kWarp;
  plan->rows_a_block = rows_a_warp * warps;
}

// Rows that lie as many bytes apart as this one's begin at so few places of shared memory's 128 bytes.
inline int64_t places(int64_t bytes) {
  int64_t count = 1;
  while (count < kWarp && bytes * count % (kWarp * 4) != 0) count *= 2;
  return count;
}

// As many rows a block as it has room for, or as few as keep every multiprocessor busy.
inline int64_t rows_of_run(const Norm& a, const Device& device, int64_t room) {
  const int64_t busy = ratio_up(a.rows, 2 * device.multiprocessors);
  return busy < room ? busy : room;
}

// Rows that end on 16 bytes together, as few as can be.
inline int64_t step_of_run(const Norm& a) {
  int64_t step = 1;
  while (step * a.cols * size_of(a.dtype) % kVector != 0) step *= 2;
  return step;
}

inline void plan_flat(const Norm& a, const Device& device, Plan* plan) {
  const int64_t row_bytes = a.cols * size_of(a.dtype), units = ratio_up(row_bytes, kVector), step = step_of_run(a);
  const int64_t rows = rows_of_run(a, device, kFlatBytes / row_bytes);
  plan->rows_a_block = rows < step ? step : rows / step * step;
  plan->threads = kFlatThreads;
  while (plan->group < kWarp && plan->group < units && 2 * plan->group * plan->rows_a_block <= kFlatThreads)
    plan->group *= 2;
}

// Elements that a lane of `staged` takes at once.
inline int64_t staged_piece(const Norm& a, uint32_t features) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(a.x) / size_of(a.dtype),
                  off = begin | static_cast<uintptr_t>(a.cols);
  if ((features & KW_FEATURE_WGMMA) != 0 && off % 4 == 0) return 4;
  return size_of(a.dtype) == 2 && off % 2 == 0 ? 2 : 1;
}

// Lanes a row: those with the least to do, about, in instructions.
inline void plan_staged(const Norm& a, const Device& device, uint32_t features, Plan* plan) {
  const int64_t size = size_of(a.dtype), kept = a.residual != nullptr ? 4 : size;
  const int64_t pieces = a.cols / staged_piece(a, features);
  const int64_t rows = rows_of_run(a, device, (kFlatBytes / kept - kVector / size) / a.cols), step = step_of_run(a);
  plan->rows_a_block = rows < step ? rows : rows / step * step;
  plan->threads = kFlatThreads;
  int64_t least = INT64_MAX;
  for (int group = 1, log2 = 0; group <= kWarp; group *= 2, ++log2) {
    const int64_t conflicts = ratio_up(kWarp / group, places(a.cols * kept)) - 1;
    const int64_t row = (14 + 8 * conflicts) * ratio_up(pieces, group) + 6 * log2 + 45;
    const int64_t cost = ratio_up(plan->rows_a_block * group, kFlatThreads) * row;
    if (cost >= least) continue;
    least = cost;
    plan->group = group;
  }
}

// Many rows of a few elements a lane, with a residual: measured only where KW_FEATURE_WGMMA is.
inline bool plan_thin(const Norm& a, const Alignment& alignment, uint32_t features, Plan* plan) {
  const int64_t lanes = a.cols / kThinCount;
  if ((features & KW_FEATURE_WGMMA) == 0 || size_of(a.dtype) != 2 || a.residual == nullptr) return false;
  if (!alignment.halves || alignment.whole || lanes > kWarp || lanes <= kWarp / 2) return false;
  plan->threads = kThinThreads;
  plan->rows_a_block = kThinThreads / kWarp * kThinRows;
  return true;
}

// RMS norm's dense rows: `staged` is better by words and for few columns.
inline bool better_flat(const Norm& a) {
  const bool words = size_of(a.dtype) == 4 || a.cols % 2 == 0;
  return a.cols > 128 || (!words && a.cols >= kVector / size_of(a.dtype));
}

}  // namespace kw::norm_plan
