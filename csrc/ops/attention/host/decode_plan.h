// SPDX-License-Identifier: MIT
// In how many parts the keys of a call of attention of few queries are split.
#pragma once

#include "core/launch.h"
#include "core/sizes.h"
#include "ops/attention/decode_geometry.h"
#include "ops/attention/host/plan.h"

namespace kw::decode_plan {

constexpr int64_t kMostSplits = 512, kKeysOfStep = 4 * KW_DECODE_KEYS;

struct Plan {
  int size;  // of the kernels' sizes
  int64_t row_tiles, splits, blocks;
  int64_t sums, states;  // bytes of the workspace
};

// As many blocks as stay on the GPU at once, each with two steps or more.
inline int64_t splits_for(const Device& device, int64_t others, int64_t keys, int64_t shared) {
  const int64_t room = device.shared_per_multiprocessor, each = shared + 1024;
  const int64_t together = room / each < 1 ? 1 : room / each;
  const int64_t steps = ratio_up(keys, kKeysOfStep), most = steps / 2 < 1 ? 1 : steps / 2;
  const int64_t wanted = device.multiprocessors * together / (others < 1 ? 1 : others);
  return wanted < 1 ? 1 : wanted < most ? wanted : most;
}

inline Plan plan_for(const Device& device, const Attention& a, int64_t splits) {
  Plan plan{};
  plan.size = attention_plan::size_class(a);
  const int64_t d = attention_plan::kClassSize[plan.size], group = a.kv_heads > 0 ? a.heads / a.kv_heads : 0;
  const int64_t row_tiles = ratio_up(group * a.queries, KW_DECODE_ROWS);
  plan.row_tiles = row_tiles < 1 ? 1 : row_tiles;  // without queries there may be rows to append
  const int64_t others = a.batch * a.kv_heads * plan.row_tiles;
  plan.splits = splits > 0 ? splits : splits_for(device, others, a.keys, KW_DECODE_SHARED(d));
  plan.splits = plan.splits < kMostSplits ? plan.splits : kMostSplits;
  plan.blocks = others * plan.splits;
  if (plan.splits > 1) {
    const int64_t rows = a.batch * a.heads * a.queries * plan.splits;
    plan.sums = rows * ratio_up(a.d_v, 4) * 16;
    plan.states = rows * 8;
  }
  return plan;
}

}  // namespace kw::decode_plan
