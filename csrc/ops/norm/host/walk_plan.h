// SPDX-License-Identifier: MIT
// Which rows of a norm's forward pass clusters that stay walk over (csrc/ops/norm/device/walk.cuh), and in what
// geometry. The constants were measured on an H200 (benchmarks/results/).
#pragma once

#include "ops/norm/host/shape.h"

namespace kw::norm_plan {

// Units of a thread, at most, and warps of a multiprocessor, as registers leave room for: from kWalk on.
constexpr int kWalkSlots[] = {8, 5, 5};
constexpr int kWalkWarpsAtOnce[] = {28, 24, 32};
constexpr int kWalkWarps = 64;       // of a row, at most
constexpr int kWalkScratch = 2560;   // bytes, at most
constexpr int64_t kReserved = 1024;  // bytes of shared memory that each block has beside its own
constexpr int kWalkRows = 3;         // of a cluster, where bringing the weights is cheap

// Rows after which they lie alike again.
inline int walk_period(const Norm& a) {
  const int64_t pitch = a.y_stride * size_of(a.dtype);
  int period = 1;
  while (a.rows > 1 && pitch * period % kVector != 0) period *= 2;
  return period;
}

// Clusters that a GPU holds at once, about: the blocks of one lie in one part of it, so that of large ones a few
// multiprocessors are left over.
inline int64_t walk_clusters_at_once(const Device& device, const Plan& plan) {
  const int64_t by_registers = kWalkWarpsAtOnce[plan.shape - kWalk] / (plan.threads / kWarp);
  const int64_t by_shared = device.shared_per_multiprocessor / (plan.shared + kWalkScratch + kReserved);
  const int64_t blocks = device.multiprocessors * (by_registers < by_shared ? by_registers : by_shared);
  return (blocks >> plan.cluster_log2) * (plan.cluster_log2 > 1 ? 11 : 12) / 12;
}

// Each phase of the period has a cluster, and each cluster a row.
inline void walk_by(int64_t clusters, const Norm& a, Plan* plan) {
  plan->clusters = clusters / plan->group * plan->group;
  if (plan->clusters < plan->group) plan->clusters = plan->group;
  if (plan->clusters > a.rows) plan->clusters = a.rows;
}

// Whether clusters of this size hold a row.
inline bool walk_with(const Norm& a, const Device& device, Shape shape, int cluster_log2, Plan* plan) {
  const int64_t units = a.cols * size_of(a.dtype) / kVector;
  const int64_t threads = whole_warps(ratio_up(ratio_up(units, kWalkSlots[shape - kWalk]), int64_t{1} << cluster_log2));
  if (threads > kMaxThreads[a.centered][shape] || threads << cluster_log2 > kWalkWarps * kWarp) return false;
  const int64_t slots = ratio_up(units, threads << cluster_log2);
  const int64_t shared = threads * slots * kVector * (a.centered ? 2 : 1);
  if (shared + kWalkScratch > device.shared_per_block) return false;
  plan->shape = shape;
  plan->slots = static_cast<int>(slots);
  plan->threads = static_cast<int>(threads);
  plan->cluster_log2 = cluster_log2;
  plan->group = walk_period(a);
  plan->shared = shared;
  walk_by(ratio_up(a.rows, kWalkRows), a, plan);
  return true;
}

// The smaller of two clusters, unless more of its threads' units are none.
inline bool walk_filled(const Norm& a, const Device& device, int cluster_log2, Plan* plan) {
  Plan larger = *plan;
  if (!walk_with(a, device, kWalk, cluster_log2, plan)) return false;
  const bool can = walk_with(a, device, kWalk, cluster_log2 + 1, &larger);
  if (can && 2 * larger.slots * larger.threads < plan->slots * plan->threads) *plan = larger;
  return true;
}

// LayerNorm's weight and bias take long to bring, and much room: as many clusters as fit, which stay to the end.
inline bool plan_walk_centered(const Norm& a, const Device& device, int64_t units, Plan* plan) {
  bool fits = false;
  if (size_of(a.dtype) == 2 && units > 5120 && units <= 6400) {  // blocks of five warps, all of whose units are some
    fits = walk_with(a, device, kWalkFive, 3, plan);
  } else if (size_of(a.dtype) == 2) {
    fits = walk_filled(a, device, 1, plan) || walk_with(a, device, kWalk, 3, plan);
  } else {
    fits = units > 4096 && walk_with(a, device, kWalk, units <= 8192 ? 2 : 3, plan);
  }
  if (fits) walk_by(walk_clusters_at_once(device, *plan), a, plan);
  return fits;
}

// Many long rows that need a cluster: measured only where KW_FEATURE_WGMMA is.
inline bool plan_walk(const Norm& a, const Alignment& alignment, const Device& device, uint32_t features, int64_t units,
                      Plan* plan) {
  const bool add = a.residual != nullptr;
  if ((features & KW_FEATURE_WGMMA) == 0 || !alignment.alike || (alignment.whole && (add || !a.centered))) return false;
  if (a.rows < 2 * device.multiprocessors || a.rows >= 0x40000000) return false;
  const bool weights_alike = (a.weight == nullptr && a.bias == nullptr) || a.weight_dtype == a.dtype;
  const uintptr_t weights = reinterpret_cast<uintptr_t>(a.weight) | reinterpret_cast<uintptr_t>(a.bias);
  const bool no_edges = a.cols * size_of(a.dtype) % kVector == 0;  // which weights could be shifted from
  if (!weights_alike || (no_edges && weights % kVector != 0)) return false;
  if (add) return size_of(a.dtype) == 2 && units > 2048 && walk_with(a, device, kWalkAdd, units <= 5120 ? 2 : 3, plan);
  if (a.centered) return units > (alignment.whole ? 4096 : 3072) && plan_walk_centered(a, device, units, plan);
  return units > 4096 && (walk_with(a, device, kWalk, 2, plan) || walk_with(a, device, kWalk, 3, plan));
}

}  // namespace kw::norm_plan
