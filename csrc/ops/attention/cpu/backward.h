// SPDX-License-Identifier: MIT
// Derivatives of attention. Shares are computed once more from the scores and their logarithm: once for each block of
// queries, which sums the derivative by q, and once for each tile of keys, which sums those by k and v. So no two
// threads add to one address, and the bits of the result are the same whatever their number. Included once for each
// instruction set.
#pragma once

#include "ops/attention/cpu/softmax.h"

namespace kw::cpu::KW_ISA {
namespace {

enum { kGradientRows = 32 };

template <class T>
class Backward {
 public:
  explicit Backward(const AttentionProblem& problem)
      : a(problem), wide(padded(problem.d)), wide_v(padded(problem.d_v)) {}

  // The derivative by some rows of q.
  void by_queries(const Sequence& s, const Block& block) {
    const int64_t rows = block.rows(), kv_head = block.head / (a.heads / a.kv_heads);
    load_queries(s, block);
    memset(sums_[0], 0, sizeof sums_[0] * static_cast<size_t>(rows));
    const Span span = span_of(a, s, block.query, block.queries);
    for (int64_t key = span.begin; key < span.end; key += kTileKeys) {
      const int64_t count = key + kTileKeys < span.end ? int64_t{kTileKeys} : span.end - key;
      load_keys(s, kv_head, key, count);
      shares(s, block, key, count);
      product<true>({slopes_[0], kTileKeys}, {keys_[0], kMostWide}, {sums_[0], kMostWide}, rows, wide, count);
    }
    for (int64_t i = 0; i < rows; ++i)
      store_row(sums_[i], a.d, a.scale, query_row_of<T>(a.dq, s, block.head_of(i), block.query_of(i)));
  }

  // Those by some rows of k and v, of all heads that look at them.
  void by_keys(const Sequence& s, int64_t kv_head, int64_t key, int64_t count) {
    const int64_t group = a.heads / a.kv_heads, ahead = s.queries - s.keys;
    load_keys(s, kv_head, key, count);
    memset(sums_[0], 0, sizeof sums_[0] * static_cast<size_t>(count));
    memset(sums_v_[0], 0, sizeof sums_v_[0] * static_cast<size_t>(count));
    int64_t first = a.right < 0 ? 0 : key + ahead - a.right,
            last = a.left < 0 ? s.queries : key + count + ahead + a.left;
    first = first < 0 ? 0 : first;
    last = last < s.queries ? last : s.queries;
    for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
      for (int64_t query = first; query < last; query += kGradientRows) {
        const int64_t rows = last - query < kGradientRows ? last - query : int64_t{kGradientRows};
        const Block block{head, 1, query, rows};
        load_queries(s, block);
        shares(s, block, key, count);
        transpose({scores_[0], kTileKeys}, rows, count, {turned_[0], kGradientRows});
        product<true>({turned_[0], kGradientRows}, {dout_[0], kMostWide}, {sums_v_[0], kMostWide}, count, wide_v, rows);
        transpose({slopes_[0], kTileKeys}, rows, count, {turned_[0], kGradientRows});
        product<true>({turned_[0], kGradientRows}, {q_[0], kMostWide}, {sums_[0], kMostWide}, count, wide, rows);
      }
    for (int64_t j = 0; j < count; ++j) {
      store_row(sums_[j], a.d, 1.0f, key_row(a.dk, s, kv_head, key + j));
      store_row(sums_v_[j], a.d_v, 1.0f, key_row(a.dv, s, kv_head, key + j));
    }
  }

  // The sum over all rows of a head: what its sink takes of each, times the row's mean.
  float by_sink(int64_t head) {
    double sum = 0;
    for (int64_t batch = 0; batch < a.batches; ++batch) {
      const Sequence s = sequence_of(a, batch);
      for (int64_t query = 0; query < s.queries; ++query)
        sum -= static_cast<double>(exp_of(a.sinks[head] - finite(*lse_of(a, s, head, query))) * mean(s, head, query));
    }
    return static_cast<float>(sum);
  }

 private:
  static float finite(float lse) { return lse == kNever ? 0.0f : lse; }

  static T* key_row(const AttentionTensor& tensor, const Sequence& s, int64_t head, int64_t key) {
    return static_cast<T*>(tensor.data) + s.batch * tensor.batch + head * tensor.head + (s.key + key) * tensor.row;
  }

  // The sum of a row of dout times out.
  float mean(const Sequence& s, int64_t head, int64_t query) const {
    const T *dout = query_row_of<T>(a.dout, s, head, query), *out = query_row_of<T>(a.out, s, head, query);
    Vec sum = zero();
    int64_t i = 0;
    for (; i + kLanes <= a.d_v; i += kLanes) sum = mul_add(load(dout + i), load(out + i), sum);
    if (i < a.d_v) sum = mul_add(load_part(dout + i, a.d_v - i), load_part(out + i, a.d_v - i), sum);
    return total(sum);
  }

  void load_queries(const Sequence& s, const Block& block) {
    for (int64_t i = 0; i < block.rows(); ++i) {
      const int64_t head = block.head_of(i), query = block.query_of(i);
      load_row(query_row_of<T>(a.q, s, head, query), a.d, a.scale, q_[i]);
      load_row(query_row_of<T>(a.dout, s, head, query), a.d_v, 1.0f, dout_[i]);
      means_[i] = mean(s, head, query);
      lse_[i] = finite(*lse_of(a, s, head, query));
    }
  }

  void load_keys(const Sequence& s, int64_t kv_head, int64_t key, int64_t count) {
    for (int64_t j = 0; j < count; ++j) load_row(row_of<T>(a, a.v, s, kv_head, key + j), a.d_v, 1.0f, keys_[j]);
    transpose({keys_[0], kMostWide}, count, a.d_v, {turned_v_[0], kTileKeys});
    for (int64_t j = 0; j < count; ++j) load_row(row_of<T>(a, a.k, s, kv_head, key + j), a.d, 1.0f, keys_[j]);
    transpose({keys_[0], kMostWide}, count, a.d, {turned_k_[0], kTileKeys});
  }

  // Into scores_ the shares that keys have of rows, into slopes_ the derivatives by the products of q and k.
  void shares(const Sequence& s, const Block& block, int64_t key, int64_t count) {
    const int64_t rows = block.rows(), width = padded(count);
    product<false>({q_[0], kMostWide}, {turned_k_[0], kTileKeys}, {scores_[0], kTileKeys}, rows, width, a.d);
    product<false>({dout_[0], kMostWide}, {turned_v_[0], kTileKeys}, {slopes_[0], kTileKeys}, rows, width, a.d_v);
    for (int64_t i = 0; i < rows; ++i) {
      float steep[kTileKeys];
      if (a.softcap != 0) {
        cap(a.softcap, scores_[i], width);
        for (int64_t j = 0; j < width; ++j) {
          const float t = scores_[i][j] / a.softcap;
          steep[j] = 1.0f - t * t;
        }
      }
      finish_scores(a, s, block.head_of(i), block.query_of(i), key, width, scores_[i]);
      exponentials(scores_[i], width, lse_[i]);
      for (int64_t j = 0; j < width; j += kLanes) {
        const Vec p = load(scores_[i] + j);
        Vec slope = mul(p, add(load(slopes_[i] + j), all(-means_[i])));
        if (a.softcap != 0) slope = mul(slope, load(steep + j));
        store(slopes_[i] + j, slope);
      }
      for (int64_t j = count; j < width; ++j) slopes_[i][j] = 0;
    }
  }

  const AttentionProblem& a;
  const int64_t wide, wide_v;
  float means_[kGradientRows], lse_[kGradientRows];
  alignas(64) float q_[kGradientRows][kMostWide];
  alignas(64) float dout_[kGradientRows][kMostWide];
  alignas(64) float scores_[kGradientRows][kTileKeys];
  alignas(64) float slopes_[kGradientRows][kTileKeys];
  alignas(64) float turned_[kTileKeys][kGradientRows];
  alignas(64) float keys_[kTileKeys][kMostWide];
  alignas(64) float turned_k_[kMostWide][kTileKeys];
  alignas(64) float turned_v_[kMostWide][kTileKeys];
  alignas(64) float sums_[kTileKeys][kMostWide];
  alignas(64) float sums_v_[kTileKeys][kMostWide];
};

}  // namespace
}  // namespace kw::cpu::KW_ISA
