// SPDX-License-Identifier: MIT
// Which kernel of csrc/ops/norm/{rms,layer}_norm.cu a call gets, and in what geometry. Sizes follow from the shape, the
// number of multiprocessors and the image's features; the constants were measured on an H200 (benchmarks/results/).
#pragma once

#include "ops/norm/host/short_plan.h"
#include "ops/norm/host/walk_plan.h"

namespace kw::norm_plan {

// LayerNorm's statistics take longer to pass between blocks: no cluster where one block will do, but for very few rows.
inline bool one_block(const Norm& a) { return a.centered && a.rows > 16; }

// Units a thread: as few as let all rows be at work at once; 0 if that cannot be.
inline int slots_at_once(const Norm& a, const Device& device, int64_t units) {
  const int64_t room = int64_t{device.multiprocessors} * kRowRoom[a.centered][a.residual != nullptr];
  for (int slots = one_block(a) && units > 256 ? 2 : 1; slots <= kSlots; ++slots) {
    if (a.rows * whole_warps(ratio_up(units, slots)) <= room) return slots;
  }
  return 0;
}

// What keeps memory busiest where there are many rows. Long rows get the kernels that hold eight units a thread:
// LayerNorm's, whose statistics cost more; RMS norm's where one block can hold them, or four units a thread are too
// few.
inline int slots_for_many(const Norm& a, int64_t units, Plan* plan) {
  if (plan->shape == kShifted && units > 3 * kWarp) {
    plan->shape = kLongShifted;
    // Where RMS norm needs a cluster anyhow, one thread more for each seven is the faster way.
    return !a.centered && units > kLongSlots * kMaxThreads[0][kLongShifted] ? kLongSlots - 1 : kLongSlots;
  }
  if (plan->shape == kRow && (a.centered ? units > 1024 : (units > 3072 && units <= 4096) || units > 8192)) {
    plan->shape = kLong;
    return kLongSlots;
  }
  if (units <= kWarp * kSlots) return kSlots;
  if (units <= 512) return a.centered ? (a.residual != nullptr ? 3 : kSlots) : 2;
  return units <= 1280 && !a.centered ? 3 : kSlots;
}

// One warp, one block or one cluster a row of `units`, of which a thread holds up to `slots`.
inline void plan_row(const Norm& a, const Device& device, int64_t units, int slots, int max_cluster, Plan* plan) {
  const int most = kMaxThreads[a.centered][plan->shape];
  while (ratio_up(units, slots) > int64_t{most} * max_cluster) ++slots;
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
  const bool few = a.rows <= device.multiprocessors && !one_block(a);
  const bool small = plan->shape < kShifted || (plan->shape == kShiftedAdd && !a.centered);
  const int block = (threads > 1024 && small) || few ? 256 : 512;
  while ((threads >> plan->cluster_log2) > block && (2 << plan->cluster_log2) <= max_cluster) ++plan->cluster_log2;
  const int64_t share = whole_warps(ratio_up(threads, int64_t{1} << plan->cluster_log2));
  plan->threads = static_cast<int>(share < most ? share : most);
  if (plan->shape != kStream && plan->shape != kStreamAdd && plan->shape != kSlide)
    plan->slots = static_cast<int>(ratio_up(units, int64_t{plan->threads} << plan->cluster_log2));
}

// Many long rows, few enough at work at once to be still in L2 when they are read again: measured only where
// KW_FEATURE_WGMMA is. Each block reads its row with two units a thread at a time.
inline bool plan_stream(const Norm& a, const Device& device, uint32_t features, int64_t units, Plan* plan) {
  const bool add = a.residual != nullptr;
  if ((features & KW_FEATURE_WGMMA) == 0 || units < 512) return false;
  if (a.centered || units >= (add ? 1024 : 4096)) return false;
  const int64_t bytes = units * kVector * (add ? 2 : 1);
  const int64_t threads = units > 2048 ? 1024 : units >= 1024 ? 512 : whole_warps(ratio_up(units, 2));
  const int64_t room = add ? 1024 : 2048, blocks = device.multiprocessors * (room / threads);
  if (room % threads > room / 10) return false;
  if (!plan->large || blocks * bytes > device.l2 / 3) return false;
  plan->threads = static_cast<int>(threads);
  return true;
}

// Many of RMS norm's float32 rows with a residual, in one block each: measured only where KW_FEATURE_WGMMA is.
inline bool plan_large(const Norm& a, uint32_t features, int64_t units, Plan* plan) {
  if ((features & KW_FEATURE_WGMMA) == 0 || a.centered || a.residual == nullptr || size_of(a.dtype) != 4) return false;
  if (!plan->large || units <= 1280 || units > kLargeSlots * kLargeThreads) return false;
  plan->slots = kLargeSlots;
  plan->threads = static_cast<int>(whole_warps(ratio_up(units, kLargeSlots)));
  return true;
}

// Many long rows of LayerNorm with a residual: measured only where KW_FEATURE_WGMMA is.
inline bool plan_pair(const Norm& a, uint32_t features, int64_t units, Plan* plan) {
  const int most = kMaxThreads[1][kPair] * kPairUnits;
  if ((features & KW_FEATURE_WGMMA) == 0 || !a.centered || a.residual == nullptr || size_of(a.dtype) != 2) return false;
  if (units <= 2 * most || units > kMaxCluster * most) return false;
  plan->cluster_log2 = units > 4 * most ? 3 : 2;
  plan->threads = static_cast<int>(whole_warps(ratio_up(units, int64_t{kPairUnits} << plan->cluster_log2)));
  plan->slots = static_cast<int>(ratio_up(units, int64_t{plan->threads} << plan->cluster_log2));
  plan->rows_a_block = kPairRows;
  return true;
}

inline Plan plan_for(const Norm& a, const Device& device, uint32_t features) {
  const Alignment alignment = alignment_of(a);
  const int64_t count = kVector / size_of(a.dtype), units = ratio_up(a.cols, count);
  const bool add = a.residual != nullptr;
  const auto with = [add](Shape shape) { return static_cast<Shape>(shape + (add ? 1 : 0)); };
  Plan plan;
  plan.alike = alignment.alike;
  const int64_t bytes = a.rows * a.cols * size_of(a.dtype) * (add ? 4 : 2);
  // With a residual, rows read twice are the faster way from where that is half as large.
  plan.large = bytes > int64_t{add && !a.centered ? 2 : 4} * device.l2;
  // From where that pays is known only where KW_FEATURE_WGMMA is.
  plan.keep = plan.large || ((features & KW_FEATURE_WGMMA) != 0 && bytes > device.l2 / 4);
  if (alignment.whole && units <= kWarp) {
    plan.shape = with(kNarrow);
    plan_narrow(a, device, units, kSlots, &plan);
  } else if (plan_thin(a, alignment, features, &plan)) {
    plan.shape = kThin;
  } else if (!alignment.whole && alignment.flat && !a.centered && a.cols <= kFlatCols && better_flat(a)) {
    plan.shape = with(kFlat);
    plan_flat(a, device, &plan);
  } else if (!alignment.whole && alignment.dense && alignment.inputs_alike && (!add || alignment.alike) &&
             a.cols <= kFlatCols) {
    plan.shape = with(kStaged);
    plan_staged(a, device, features, &plan);
  } else if (a.cols <= kWarp) {
    plan.shape = kScalar;
    plan_narrow(a, device, a.cols, kScalarSlots, &plan);
  } else if (alignment.whole && plan_stream(a, device, features, units, &plan)) {
    plan.shape = with(kStream);
  } else if (alignment.whole && plan_large(a, features, units, &plan)) {
    plan.shape = kRowAdd;
  } else {
    const int max_cluster = (features & KW_FEATURE_CLUSTER) != 0 ? kMaxCluster : 1;
    plan.shape = with(alignment.whole ? kRow : kShifted);
    const int64_t whole = alignment.whole ? units : (a.cols - (2 * count - 1)) / count;  // as span_of() has it
    int slots = slots_at_once(a, device, whole);
    if (slots == 0 && alignment.whole && plan_pair(a, features, units, &plan)) {
      plan.shape = kPair;
      return plan;
    }
    if (slots == 0 && plan_walk(a, alignment, device, features, units, &plan)) return plan;
    if (slots == 0) slots = slots_for_many(a, whole, &plan);
    const int holds = plan.shape >= kLong ? kLongSlots : kSlots;
    if (whole <= int64_t{kMaxThreads[a.centered][plan.shape]} * holds * max_cluster) {
      plan_row(a, device, whole, slots, max_cluster, &plan);
    } else {
      plan.shape = alignment.whole ? with(kStream) : kSlide;
      plan_row(a, device, whole, kSlots, 1, &plan);
    }
  }
  return plan;
}

}  // namespace kw::norm_plan
