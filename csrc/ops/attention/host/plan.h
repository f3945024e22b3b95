// SPDX-License-Identifier: MIT
// From a checked call of attention to what its kernels are given, and which of them computes it.
#pragma once

#include "core/launch.h"
#include "core/sizes.h"
#include "core/tensor_map.h"
#include "ops/attention/geometry.h"
#include "ops/attention/host/attention.h"
#include "ops/attention/params.h"

namespace kw::attention_plan {

constexpr int64_t kMaxBlocks = 0x7fffffff, kVector = 8;  // elements of 16 bytes

inline KwHeads heads_of(const HeadTensor& t) {
  return {static_cast<char*>(t.data), t.batch * 2, t.head * 2, t.row * 2};
}

// Whether all rows lie on 16 bytes; where there is one batch, head or row its stride does not count.
inline bool in_vectors(const HeadTensor& t, int64_t batch, int64_t heads, int64_t rows, int64_t d) {
  int64_t together = d;
  if (batch > 1) together |= t.batch;
  if (heads > 1) together |= t.head;
  if (rows > 1) together |= t.row;
  return together % kVector == 0 && reinterpret_cast<uintptr_t>(t.data) % 16 == 0;
}

inline KwScoreTensor score_of(const ScoreTensor& t, int64_t size) {
  return {static_cast<const char*>(t.data), t.batch * size, t.head * size, t.row * size, t.column * size};
}

inline KwScoreParams score_params(const Attention& a) {
  KwScoreParams p{};
  p.mask = score_of(a.mask, 1);
  p.bias = score_of(a.bias, a.bias_dtype == KW_FLOAT32 ? 4 : 2);
  p.bias_is_float = a.bias_dtype == KW_FLOAT32;
  p.sinks = a.sinks, p.slopes = a.slopes;
  p.slopes_batch = a.slopes_batch, p.slopes_head = a.slopes_head;
  p.scale = static_cast<float>(a.scale), p.softcap = static_cast<float>(a.softcap);
  p.window_left = static_cast<int>(a.window_left), p.window_right = static_cast<int>(a.window_right);
  return p;
}

inline KwAttentionSizes sizes_of(const Attention& a) {
  KwAttentionSizes s{};
  s.starts_q = a.starts_q, s.starts_k = a.starts_k;
  s.batch = static_cast<int>(a.batch), s.heads = static_cast<int>(a.heads), s.kv_heads = static_cast<int>(a.kv_heads);
  s.queries = static_cast<int>(a.queries), s.keys = static_cast<int>(a.keys);
  s.d = static_cast<int>(a.d), s.d_v = static_cast<int>(a.d_v);
  s.lse_batch = a.lse_batch, s.lse_head = a.lse_head;
  return s;
}

inline bool rows_in_vectors(const Attention& a) {
  return in_vectors(a.q, a.batch, a.heads, a.total_q, a.d) && in_vectors(a.k, a.batch, a.kv_heads, a.total_k, a.d) &&
         in_vectors(a.v, a.batch, a.kv_heads, a.total_k, a.d_v);
}

// Which of the sizes of heads that there are kernels for.
inline int size_class(const Attention& a) {
  const int64_t widest = a.d > a.d_v ? a.d : a.d_v;
  return widest <= KW_ATTENTION_SMALL ? 0 : widest <= KW_ATTENTION_MIDDLE ? 1 : 2;
}

// Heads whose keys and values L2 has at one time, so many that they share all of k's and v's heads that they read.
inline int64_t section_of(const Attention& a, int64_t l2) {
  const int64_t each = a.heads / a.kv_heads, bytes = (a.keys + 1) * (a.d + a.d_v) * 2, many = l2 / 2 / bytes;
  const int64_t section = (many > 1 ? many : 1) * each, all = a.batch * a.heads;
  return section < all ? section : all;
}

// Whether the kernels for warpgroups compute it: nothing is asked of scores but where they are hidden, and boxes can be
// described.
inline bool fits_tma(const Attention& a, uint32_t features) {
  const HeadTensor* const all[] = {&a.q, &a.k, &a.v};
  for (const HeadTensor* t : all) {
    if (t->row <= 0 || (a.batch > 1 && t->batch <= 0 && a.starts_q == nullptr) || (a.heads > 1 && t->head <= 0))
      return false;
  }
  return (features & KW_FEATURE_WGMMA) != 0 && a.mask.data == nullptr && a.bias.data == nullptr &&
         a.slopes == nullptr && a.softcap == 0.0 && a.scale > 1e-20 && a.keys > 0 && rows_in_vectors(a);
}

// Rows of 64 elements at a time of all heads and batches.
inline TensorMap boxes_of(const HeadTensor& t, int32_t dtype, int64_t batch, int64_t heads, int64_t rows, int64_t d,
                          int64_t box_rows) {
  const int64_t least = ratio_up(d, kVector) * kVector;  // of what has one element the pitch does not count
  TensorMap map{t.data, dtype, 4, {d, rows, heads, batch}, {}, {64, box_rows, 1, 1}, Swizzle::k128};
  map.pitches[1] = (rows > 1 ? t.row : least) * 2;
  map.pitches[2] = (heads > 1 ? t.head : least) * 2;
  map.pitches[3] = (batch > 1 ? t.batch : least) * 2;
  return map;
}

constexpr int64_t kClassSize[] = {KW_ATTENTION_SMALL, KW_ATTENTION_MIDDLE, KW_ATTENTION_LARGE};

}  // namespace kw::attention_plan
