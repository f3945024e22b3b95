// SPDX-License-Identifier: MIT
// The kernels of csrc/ops/norm/{rms,layer}_norm.cu, what of a call decides between them, and what was decided.
#pragma once

#include <stdint.h>

#include "core/launch.h"
#include "ops/norm/host/norm.h"

namespace kw::norm_plan {

constexpr int kWarp = 32;
constexpr int kVector = 16;  // bytes of the widest load
// As in csrc/ops/norm/device/*.cuh.
constexpr int kSlots = 4;
constexpr int kLongSlots = 8;
constexpr int kScalarSlots = 8;
constexpr int kFlatThreads = 256;
constexpr int64_t kFlatBytes = kFlatThreads * kSlots * kVector;
constexpr int64_t kFlatCols = 512;  // of staged too
constexpr int kThinThreads = 128;
constexpr int kThinRows = 4;  // of a warp
constexpr int kThinCount = 4;
constexpr int kPairRows = 2;
constexpr int kPairUnits = 4;
constexpr int kLargeSlots = 3;
constexpr int kLargeThreads = 704;
constexpr int kMaxCluster = 8;  // what every GPU with clusters can place
constexpr int kMaxUnits = static_cast<int>(kMaxCols * 4 / kVector);

// The order of a type's kernels. One with a residual follows the one without; scalar and slide serve both, thin and
// pair are for residuals only, walk_five is for none.
enum Shape {
  kRow,
  kRowAdd,
  kShifted,
  kShiftedAdd,
  kNarrow,
  kNarrowAdd,
  kFlat,
  kFlatAdd,
  kStaged,
  kStagedAdd,
  kStream,
  kStreamAdd,
  kScalar,
  kSlide,
  kLong,
  kLongShifted,
  kThin,
  kPair,
  kWalk,
  kWalkAdd,
  kWalkFive,
  kShapes
};

// The most threads a block of the kernel may have: its __launch_bounds__, of RMS norm and of LayerNorm.
constexpr int kMaxThreads[2][kShapes] = {
    {768, 1024, 640, 1024, 64, 64, 256, 256, 256, 256, 1024, 512, 64, 512, 512, 512, 128, 0, 448, 384, 0},
    {640, 1024, 576, 1024, 64, 64, 0, 0, 256, 256, 512, 512, 64, 512, 512, 512, 128, 256, 448, 384, 320}};

// A cluster holds any row: images for GPUs with clusters have no kernel that reads twice for want of room.
constexpr bool clusters_hold_all() {
  for (const auto& most : kMaxThreads) {
    for (int shape = kRow; shape <= kShiftedAdd; ++shape) {
      if (most[shape] * kSlots * kMaxCluster < kMaxUnits) return false;
    }
    if (most[kLong] * kLongSlots * kMaxCluster < kMaxUnits) return false;
    if (most[kLongShifted] * kLongSlots * kMaxCluster < kMaxUnits) return false;
  }
  return true;
}
static_assert(clusters_hold_all());

// Threads of a multiprocessor that the registers of `row` leave room for, without and with a residual.
constexpr int kRowRoom[2][2] = {{1536, 1024}, {1280, 1024}};

struct Plan {
  Shape shape = kSlide;
  int threads = kWarp;
  int slots = 1;  // units a thread
  int cluster_log2 = 0;
  bool row_is_a_warp = false;
  bool alike = true;
  bool large = false;  // the tensors are far larger than L2
  bool keep = false;   // L2 is to keep what is read longest
  int group = 1;       // lanes a row
  int64_t rows_a_block = 1;
  int64_t clusters = 0;  // that stay; 0: as many as there are rows for
  int64_t shared = 0;
};

// How far off 16 bytes the rows of the tensors lie.
struct Alignment {
  bool alike = true;         // every row begins equally far off in all tensors
  bool inputs_alike = true;  // in all but y
  bool whole = true;         // every row begins and ends on 16 bytes, weight and bias too
  bool halves = true;        // the same on 8 bytes
  bool dense = true;         // rows follow each other without a gap
  bool flat = true;          // dense, and the first row begins on 16 bytes
};

inline Alignment alignment_of(const Norm& a) {
  const uintptr_t size = static_cast<uintptr_t>(size_of(a.dtype));
  const void* data[] = {a.x, a.residual, a.sum, a.y};
  const int64_t stride[] = {a.x_stride, a.residual_stride, a.sum_stride, a.y_stride};
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
    result.inputs_alike = difference % kVector == 0;
    off |= start | pitch;
    difference |= (start - reinterpret_cast<uintptr_t>(a.x)) | (pitch - x_pitch);
    if (!one_row && stride[i] != a.cols) result.dense = false;
    if (start % kVector != 0) result.flat = false;
  }
  result.flat = result.flat && result.dense;
  result.alike = difference % kVector == 0;
  result.whole = off % kVector == 0;
  result.halves = off % (kVector / 2) == 0;
  return result;
}

inline int64_t ratio_up(int64_t n, int64_t d) { return (n + d - 1) / d; }

inline int64_t whole_warps(int64_t threads) { return ratio_up(threads, kWarp) * kWarp; }

inline int power_of_two_from(int64_t n) {
  int power = 1;
  while (power < n) power *= 2;
  return power;
}

}  // namespace kw::norm_plan
