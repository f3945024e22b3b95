// SPDX-License-Identifier: MIT
// Which threads of a GPU share a row that is quantized: of int8 here, of e4m3 in csrc/ops/fp8.
#pragma once

#include "core/device.h"
#include "core/sizes.h"
#include "ops/int8/params.h"

namespace kw::rows_plan {

enum class Way { kWarps, kFew, kBlocks };

struct Plan {
  Way way;
  int64_t blocks, threads;
};

// A warp has a row of few elements. With too few rows for the GPU, as many threads as there are units share one.
inline Plan plan_for(int64_t rows, int64_t cols, unsigned element_bytes, const Device& device) {
  constexpr int64_t kWarp = 32, kMostThreads = 1024;
  const int64_t units = ratio_up(cols > 0 ? cols : 1, 16 / element_bytes);
  const int64_t whole = ratio_up(units, kWarp) * kWarp,
                shared = ratio_up(units, kWarp * KW_QUANTIZE_ROWS_UNITS) * kWarp;
  const bool few = rows <= 2 * static_cast<int64_t>(device.multiprocessors);
  if (few && whole <= kMostThreads) return {Way::kFew, rows, whole};
  if (shared == kWarp) return {Way::kWarps, ratio_up(rows, KW_QUANTIZE_ROWS_WARPS), KW_QUANTIZE_ROWS_THREADS};
  return {Way::kBlocks, rows, shared < kMostThreads ? shared : kMostThreads};
}

// Whether addresses and, of several rows, the bytes between them are multiples of `bytes`.
inline bool aligned(const void* data, int64_t pitch, int64_t rows, uintptr_t bytes) {
  const uintptr_t bits = reinterpret_cast<uintptr_t>(data) | (rows > 1 ? static_cast<uintptr_t>(pitch) : 0);
  return bits % bytes == 0;
}

}  // namespace kw::rows_plan
