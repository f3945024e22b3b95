// SPDX-License-Identifier: MIT
// Which kernel of csrc/ops/attention/rope.cu a call gets, and in what geometry.
#pragma once

#include "core/launch.h"
#include "core/sizes.h"
#include "ops/attention/host/rope.h"
#include "ops/attention/rope_geometry.h"
#include "ops/attention/rope_params.h"

namespace kw::rope_plan {

constexpr int64_t kVector = 16, kMostThreads = int64_t{1} << 31;

inline bool on_vectors(const void* data) { return reinterpret_cast<uintptr_t>(data) % kVector == 0; }

// Whether all rows lie on 16 bytes; where there is one batch, head or row its stride does not count.
inline bool in_vectors(const Rope& a, const HeadTensor& t, int64_t heads) {
  int64_t together = 0;
  if (a.batch > 1) together |= t.batch;
  if (heads > 1) together |= t.head;
  if (a.rows > 1) together |= t.row;
  return together * size_of(a.dtype) % kVector == 0 && on_vectors(t.data);
}

inline bool heads_in_vectors(const Rope& a) {
  const int64_t count = kVector / size_of(a.dtype);
  return a.pairs % count == 0 && a.d % count == 0 && in_vectors(a, a.q, a.q_heads) &&
         in_vectors(a, a.q_out, a.q_heads) && in_vectors(a, a.k, a.k_heads) && in_vectors(a, a.k_out, a.k_heads);
}

inline bool tables_in_vectors(const Rope& a) {
  const int64_t together = a.cos.batch | a.cos.row | a.sin.batch | a.sin.row;
  return a.step == 1 && together * size_of(a.table_dtype) % kVector == 0 && on_vectors(a.cos.data) &&
         on_vectors(a.sin.data);
}

struct Plan {
  bool vectors;
  int64_t items, turning, groups;
  uint32_t block;
};

// As many heads a thread as it can have under way, or as few as keep every multiprocessor busy.
inline Plan plan_for(const Rope& a, const Device& device) {
  constexpr int64_t kBusy = 1024;  // threads a multiprocessor
  Plan plan{};
  plan.vectors = heads_in_vectors(a) && tables_in_vectors(a);
  const int64_t count = plan.vectors ? kVector / size_of(a.dtype) : 1;
  plan.turning = a.pairs / count;
  plan.items = plan.turning + (in_place(a) ? 0 : ratio_up(a.d - 2 * a.pairs, 2 * count));
  const int64_t heads = a.q_heads + a.k_heads, all = a.batch * a.rows * plan.items * heads;
  int64_t each = 1;
  while (each < kRopeHeads && all > kBusy * device.multiprocessors * each) each *= 2;
  plan.groups = ratio_up(heads, each);
  plan.block = kRopeThreads;
  while (plan.block > 64 && ratio_up(all / each, plan.block) < device.multiprocessors) plan.block /= 2;
  return plan;
}

inline KwHeads heads_of(const HeadTensor& t, int64_t size) {
  return {static_cast<char*>(t.data), t.batch * size, t.head * size, t.row * size};
}

inline KwRopeTable table_of(const RopeTable& t, int64_t size) {
  return {static_cast<const char*>(t.data), t.batch * size, t.row * size};
}

inline KwRopeParams params_of(const Rope& a, const Plan& plan) {
  const int64_t size = size_of(a.dtype), table_size = size_of(a.table_dtype);
  KwRopeParams p{};
  p.q = heads_of(a.q, size), p.k = heads_of(a.k, size);
  p.q_out = heads_of(a.q_out, size), p.k_out = heads_of(a.k_out, size);
  p.cos = table_of(a.cos, table_size), p.sin = table_of(a.sin, table_size);
  p.positions = a.positions, p.positions_batch = a.positions_batch, p.positions_row = a.positions_row;
  p.adds_row = a.adds_row, p.max_positions = static_cast<int>(a.max_positions), p.step = static_cast<int>(a.step);
  p.wide = a.table_dtype == KW_FLOAT32;
  p.items = static_cast<unsigned>(plan.items), p.turning = static_cast<unsigned>(plan.turning);
  p.groups = static_cast<unsigned>(plan.groups), p.row_threads = static_cast<unsigned>(plan.items * plan.groups);
  p.heads = static_cast<unsigned>(a.q_heads + a.k_heads), p.q_heads = static_cast<unsigned>(a.q_heads);
  p.rows = static_cast<unsigned>(a.rows);
  p.pairs = static_cast<int>(a.pairs), p.d = static_cast<int>(a.d);
  p.interleaved = a.interleaved, p.inverse = a.inverse;
  return p;
}

}  // namespace kw::rope_plan
