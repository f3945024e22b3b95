// SPDX-License-Identifier: MIT
// From a checked call to what the CPU computes.
#pragma once

#include "ops/attention/cpu/problem.h"
#include "ops/attention/host/attention.h"

namespace kw::cpu {

inline AttentionTensor tensor_of(const HeadTensor& t) { return {t.data, t.batch, t.head, t.row}; }

inline AttentionMask mask_of(const ScoreTensor& t, int32_t dtype) {
  return {t.data, t.batch, t.head, t.row, t.column, dtype};
}

// Refuses sequences that do not lie in their tensors.
kw_status check_sequences(const Attention& args);

inline AttentionProblem problem_of(const Attention& from) {
  AttentionProblem a{};
  a.q = tensor_of(from.q);
  a.k = tensor_of(from.k);
  a.v = tensor_of(from.v);
  a.out = tensor_of(from.out);
  a.batches = from.batch, a.heads = from.heads, a.kv_heads = from.kv_heads, a.d = from.d, a.d_v = from.d_v;
  a.queries = from.queries, a.keys = from.keys, a.dtype = from.dtype;
  a.first_query = from.starts_q, a.first_key = from.starts_k;
  a.total_queries = from.total_q, a.total_keys = from.total_k;
  a.mask = mask_of(from.mask, KW_UINT8);
  a.bias = mask_of(from.bias, from.bias_dtype);
  a.sinks = from.sinks, a.slopes = from.slopes;
  a.slopes_batch = from.slopes_batch, a.slopes_head = from.slopes_head;
  a.scale = static_cast<float>(from.scale), a.softcap = static_cast<float>(from.softcap);
  a.left = from.window_left, a.right = from.window_right;
  a.lse = from.lse, a.lse_batch = from.lse_batch, a.lse_head = from.lse_head;
  return a;
}

}  // namespace kw::cpu
