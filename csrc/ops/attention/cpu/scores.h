// SPDX-License-Identifier: MIT
// What becomes of a tile of scores between the two products: softcap, ALiBi, masks, windows. Included once for each
// instruction set.
#pragma once

#include "ops/attention/cpu/problem.h"
#include "ops/attention/cpu/product.h"

namespace kw::cpu::KW_ISA {
namespace {

constexpr float kNever = -__builtin_inff();
enum { kTileKeys = 64, kMostWide = 256 };

// One batch, or one packed sequence.
struct Sequence {
  int64_t batch, query, key;  // of memory: batch and first rows
  int64_t queries, keys;
  int64_t sequence;  // its number

  // The position among the keys of a query's own.
  int64_t position(int64_t i) const { return i + keys - queries; }
};

// Rows from one number to another, of those there are.
struct Rows {
  int64_t begin, count;
};

inline Rows rows_between(int64_t begin, int64_t end, int64_t total, int64_t most) {
  begin = begin < 0 ? 0 : begin < total ? begin : total;
  end = end < begin ? begin : end < total ? end : total;
  return {begin, end - begin < most ? end - begin : most};
}

inline Sequence sequence_of(const AttentionProblem& a, int64_t batch) {
  Sequence s{batch, 0, 0, a.queries, a.keys, batch};
  if (a.first_query != nullptr) {
    const Rows queries = rows_between(a.first_query[batch], a.first_query[batch + 1], a.total_queries, a.queries);
    const Rows keys = rows_between(a.first_key[batch], a.first_key[batch + 1], a.total_keys, a.keys);
    s = {0, queries.begin, keys.begin, queries.count, keys.count, batch};
  }
  if (a.lengths != nullptr) s.keys = rows_between(0, a.lengths[batch], a.keys - a.new_rows, a.keys).count + a.new_rows;
  return s;
}

// Heads and queries of one block: rows are head by head.
struct Block {
  int64_t head, heads, query, queries;

  int64_t rows() const { return heads * queries; }
  int64_t head_of(int64_t row) const { return head + row / queries; }
  int64_t query_of(int64_t row) const { return query + row % queries; }
};

// The keys that a query may see, of those there are.
struct Span {
  int64_t begin, end;
};

inline Span span_of(const AttentionProblem& a, const Sequence& s, int64_t query) {
  const int64_t position = s.position(query);
  const int64_t begin = a.left < 0 ? 0 : position - a.left, end = a.right < 0 ? s.keys : position + a.right + 1;
  return {begin < 0 ? 0 : begin, end < 0 ? 0 : end < s.keys ? end : s.keys};
}

// Of queries one after another: from the first one's first key to the last one's last.
inline Span span_of(const AttentionProblem& a, const Sequence& s, int64_t query, int64_t count) {
  return {span_of(a, s, query).begin, span_of(a, s, query + count - 1).end};
}

template <class T>
const T* row_of(const AttentionProblem& a, const AttentionTensor& tensor, const Sequence& s, int64_t head,
                int64_t key) {
  const T* data = static_cast<const T*>(tensor.data) + head * tensor.head;
  const int64_t batch = a.batch_index != nullptr ? a.batch_index[s.batch] : s.batch;
  if (a.pages == nullptr) return data + batch * tensor.batch + (s.key + key) * tensor.row;
  const int64_t page = a.pages[s.batch * a.pages_stride + key / a.page_rows];
  return data + page * tensor.batch + key % a.page_rows * tensor.row;
}

template <class T>
T* query_row_of(const AttentionTensor& tensor, const Sequence& s, int64_t head, int64_t query) {
  return static_cast<T*>(tensor.data) + s.batch * tensor.batch + head * tensor.head + (s.query + query) * tensor.row;
}

inline float* lse_of(const AttentionProblem& a, const Sequence& s, int64_t head, int64_t query) {
  return a.lse + s.batch * a.lse_batch + head * a.lse_head + s.query + query;
}

inline Vec tanh_of(Vec v) {
  const Vec e = exp(within(add(v, v), -60.0f, 60.0f));
  return mul_add(all(-2.0f), reciprocal(add(e, all(1.0f))), all(1.0f));
}

inline void cap(float softcap, float* scores, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes)
    store(scores + i, mul(all(softcap), tanh_of(mul(load(scores + i), all(1.0f / softcap)))));
}

template <class T>
void add_bias(const T* bias, int64_t step, float* scores, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    float value[kLanes];
    store(value, load_part(bias + i * step, 1));
    scores[i] += value[0];
  }
}

inline void apply_bias(const AttentionMask& m, int64_t at, float* scores, int64_t count) {
  if (m.dtype == KW_FLOAT32) return add_bias(static_cast<const float*>(m.data) + at, m.column, scores, count);
  if (m.dtype == KW_FLOAT16) return add_bias(static_cast<const Half*>(m.data) + at, m.column, scores, count);
  return add_bias(static_cast<const BFloat16*>(m.data) + at, m.column, scores, count);
}

inline void apply_mask(const AttentionMask& m, int64_t at, float* scores, int64_t count) {
  const auto* seen = static_cast<const uint8_t*>(m.data) + at;
  for (int64_t i = 0; i < count; ++i)
    if (seen[i * m.column] == 0) scores[i] = kNever;
}

inline int64_t offset_in(const AttentionMask& m, const Sequence& s, int64_t head, int64_t query, int64_t key) {
  return s.batch * m.batch + head * m.head + query * m.row + key * m.column;
}

// The scores of a query with the keys from `first` on, and as many as fill `width`, as the softmax takes them: all but
// softcap, which comes before.
inline void finish_scores(const AttentionProblem& a, const Sequence& s, int64_t head, int64_t query, int64_t first,
                          int64_t width, float* scores) {
  const Span span = span_of(a, s, query);
  const int64_t position = s.position(query);
  int64_t begin = span.begin - first, end = span.end - first;
  begin = begin < 0 ? 0 : begin < width ? begin : width;
  end = end < begin ? begin : end < width ? end : width;
  for (int64_t i = 0; i < begin; ++i) scores[i] = kNever;
  for (int64_t i = end; i < width; ++i) scores[i] = kNever;
  if (a.slopes != nullptr) {
    const float slope = a.slopes[s.sequence * a.slopes_batch + head * a.slopes_head];
    for (int64_t i = begin; i < end; ++i) {
      const int64_t away = first + i - position;
      scores[i] -= slope * static_cast<float>(away < 0 ? -away : away);
    }
  }
  const int64_t from = first + begin, count = end - begin;
  if (a.bias.data != nullptr) apply_bias(a.bias, offset_in(a.bias, s, head, query, from), scores + begin, count);
  if (a.mask.data != nullptr) apply_mask(a.mask, offset_in(a.mask, s, head, query, from), scores + begin, count);
}

}  // namespace
}  // namespace kw::cpu::KW_ISA
