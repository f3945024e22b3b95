// SPDX-License-Identifier: MIT
// The derivatives of a norm where rows are few (csrc/ops/norm/device/backward_few.cuh): in what geometry, and when.
// The constants were measured on an H200 (benchmarks/results/).
#pragma once

#include "ops/norm/host/backward_plan.h"

namespace kw::norm_backward_few {

using norm_backward_plan::kVector;
using norm_backward_plan::kWarp;
using norm_backward_plan::ratio_up;

constexpr int64_t kMostRows = 2048;
constexpr int64_t kFewestCols = 1024;  // narrower rows would be small blocks', and few blocks' columns
// As in the kernels.
constexpr int kSlots = 2;
constexpr int kMostThreads = 1024;
constexpr int kMostColumnsThreads = 512;
constexpr int kAhead = 4;

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
         bytes <= kVector * kSlots * kMostThreads && 2 * a.rows * bytes <= device.l2 / 2 &&
         norm_backward_plan::aligned(a) && parameters % kVector == 0;
}

// A unit a thread where multiprocessors have little else to do.
inline uint32_t row_threads(const NormBackward& a, const Device& device) {
  const int64_t units = a.cols * size_of(a.dtype) / kVector;
  const bool one = units <= kMostThreads && a.rows * units <= int64_t{512} * device.multiprocessors;
  return static_cast<uint32_t>(ratio_up(one ? units : ratio_up(units, kSlots), kWarp) * kWarp);
}

// Units of columns a block: as many as leave every multiprocessor some.
inline uint32_t columns_lanes(int64_t units, const Device& device) {
  return units >= int64_t{3} * device.multiprocessors ? 4 : 2;
}

inline uint32_t columns_threads(int64_t rows, uint32_t lanes) {
  uint32_t threads = 64;
  while (threads < kMostColumnsThreads && threads * kAhead < rows * lanes) threads *= 2;
  return threads;
}

}  // namespace kw::norm_backward_few
