// SPDX-License-Identifier: MIT
// In what geometry sums that blocks have left are added (csrc/ops/norm/device/backward_finish.cuh).
#pragma once

#include "ops/norm/host/backward_plan.h"

namespace kw::norm_backward_plan {

constexpr int kFinishAhead = 8;      // loads that a thread has on their way at once
constexpr int kFinishThreads = 256;  // at least, of a block

// The second pass, over what blocks have left. A block has `width` units of columns side by side, of `count` sums each,
// and for each of its warps as many sums in shared memory.
struct Finish {
  int count, width, threads, shared;
  int64_t blocks;  // for dweight, and as many for dbias
};

// `pitch`: sums from one row of them to the next; the first begins on 16 bytes, as the workspace does.
inline Finish finish_for(int64_t pitch, int64_t partials, bool centered, const Device& device) {
  constexpr int kSector = 8, kMost = 1024;  // sums, threads
  Finish plan;
  plan.count = pitch % kQuad == 0 ? kQuad : 1;
  plan.width = kWarp;
  // Small enough for every multiprocessor to have some.
  const int64_t units = pitch / plan.count, all = units * (centered ? 2 : 1);
  while (plan.width * plan.count > kSector && all < int64_t{plan.width} * device.multiprocessors) plan.width /= 2;
  plan.blocks = ratio_up(units, plan.width);
  plan.threads = kFinishThreads;
  while (plan.threads < kMost && plan.threads * kFinishAhead < plan.width * partials) plan.threads *= 2;
  plan.shared = plan.threads / kWarp * plan.width * plan.count * static_cast<int>(sizeof(float));
  return plan;
}

}  // namespace kw::norm_backward_plan
