// SPDX-License-Identifier: MIT
// The derivatives of attention by warps, in fixed order: the same bits each time. Probabilities are computed anew from
// the logarithms of the rows' sums. What the derivative of a row's scores is less by, the sum of its result times that
// result's derivative, is there before (delta).
#pragma once

#include "device/reduce.cuh"
#include "ops/attention/device/products.cuh"
#include "ops/attention/device/score.cuh"
#include "ops/attention/device/tile_coordinates.cuh"
#include "ops/attention/geometry.h"

namespace kw {

#ifdef KW_HAS_BF16_MMA

// Sums over a row of the result times its derivative. A warp has a row.
template <class T>
__device__ __forceinline__ void attention_delta(const KwAttentionBackwardParams& p) {
  const i64 rows = p.delta_rows, row = i64{blockIdx.x} * 4 + threadIdx.x / 32;
  if (row >= rows * p.delta_heads) return;
  const int head = static_cast<int>(row / rows % p.sizes.heads), batch = static_cast<int>(row / rows / p.sizes.heads);
  const int at = static_cast<int>(row % rows);
  const char* const out = head_of(p.out, batch, head, at);
  const char* const dout = head_of(p.dout, batch, head, at);
  float sum = 0.0f;
#pragma unroll 1
  for (int i = threadIdx.x % 32; i < p.sizes.d_v; i += 32) {
    u32 a[1], b[1];
    load<2>(out + i * 2, a);
    load<2>(dout + i * 2, b);
    sum = fmaf(T::low(a[0]), T::low(b[0]), sum);
  }
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) p.delta[row] = sum;
}

// The derivative by a head's sink; a block has a head.
__device__ __forceinline__ void attention_sinks(const KwAttentionBackwardParams& p) {
  constexpr float kLog2E = 1.4426950408889634f;
  __shared__ SumScratch scratch;
  const int head = blockIdx.x;
  const float sink = p.score.sinks[head];
  float sum = 0.0f;
#pragma unroll 1
  for (int batch = 0; batch < p.sizes.batch; ++batch) {
    const Sequence rows = sequence_of(p.sizes.starts_q, batch, p.sizes.queries);
    const float* const lse = p.lse + batch * p.sizes.lse_batch + head * p.sizes.lse_head + rows.first;
    const float* const delta = p.delta + batch * p.delta_batch + head * p.delta_head + rows.first;
#pragma unroll 1
    for (int i = threadIdx.x; i < rows.count; i += blockDim.x) {
      const float share = exp2_approx((sink - lse[i]) * kLog2E);
      if (sink != minus_infinity()) sum = fmaf(-share, delta[i], sum);
    }
  }
  sum = block_sum(warp_sum(sum), scratch);
  if (threadIdx.x == 0) p.dsinks[head] = sum;
}

// What both kernels have: a warp's 16 rows of queries or keys, and a tile of the others.
template <class T, u32 kD, bool kKeyRows>
struct Differentiate {
  static constexpr u32 kThreads = KW_ATTENTION_THREADS, kRows = 64, kOther = KW_ATTENTION_OTHER(kD), kChunks = kD / 8;
  static constexpr u32 kRowBytes = kRows * kD * 2, kOtherBytes = kOther * kD * 2;
  static constexpr bool kApart = kKeyRows && kD > KW_ATTENTION_MIDDLE;  // registers hold one of two results
  using Tile = float[1][kOther / 2];
  using Result = float[kChunks * 4];

  const KwAttentionBackwardParams& p;
  // Rows of q (or k) and of dout (or v), then a tile of k (or q) and of v (or dout), then two numbers a query.
  u32 room, lane, warp_row;

  __device__ __forceinline__ explicit Differentiate(const KwAttentionBackwardParams& p)
      : p(p), room(shared_address(attention_shared())), lane(threadIdx.x % 32), warp_row(threadIdx.x / 32 * 16) {}

  __device__ __forceinline__ u32 rows_room(u32 which) const { return room + which * kRowBytes; }
  __device__ __forceinline__ u32 other_room(u32 which) const { return room + 2 * kRowBytes + which * kOtherBytes; }
  __device__ __forceinline__ u32 numbers() const { return other_room(2); }

  template <u32 kCount>
  __device__ __forceinline__ void copy(u32 to, const KwHeads& from, int batch, int head, const Sequence& of, int row,
                                       int d) const {
    copy_rows<kCount, kChunks, kThreads>(to, head_of(from, batch, head, of.first + row), from.row, of.count - row, d,
                                         p.vectors != 0);
  }

  // The logarithm of a query's sum, in units of 2, and its delta. Infinite where it sees nothing, or is not there.
  __device__ __forceinline__ float log_at(int batch, int head, const Sequence& queries, int query) const {
    constexpr float kLog2E = 1.4426950408889634f;
    if (query >= queries.count) return -minus_infinity();
    const float lse = p.lse[batch * p.sizes.lse_batch + head * p.sizes.lse_head + queries.first + query];
    return lse == minus_infinity() ? -lse : lse * kLog2E;
  }
  __device__ __forceinline__ float delta_at(int batch, int head, const Sequence& queries, int query) const {
    if (query >= queries.count) return 0.0f;
    return p.delta[batch * p.delta_batch + head * p.delta_head + queries.first + query];
  }

  // From products to probabilities, and to what their derivatives are; `row` and `column`: the lane's first.
  template <class Log, class Delta>
  __device__ __forceinline__ void probabilities(const Scores<T>& scores, Tile& s, Tile& by, int row, int column,
                                                bool all, const Log& log, const Delta& delta) const {
#pragma unroll
    for (u32 i = 0; i < kOther / 2; ++i) by[0][i] -= delta(i);
    if (scores.transforms || scores.mask != nullptr) scores.template transform<kKeyRows>(s, by, row, column);
    if (!all) scores.template hide<kKeyRows>(s[0], row, column);
#pragma unroll
    for (u32 i = 0; i < kOther / 2; ++i) {
      s[0][i] = exp2_approx(fmaf(s[0][i], scores.multiplier, -log(i)));
      by[0][i] *= s[0][i];
    }
  }
};

// By queries: a block has a tile of them and goes through the keys that they see.
template <class T, u32 kD>
struct BackwardQueries : Differentiate<T, kD, false> {
  using Base = Differentiate<T, kD, false>;
  using Base::p, Base::lane, Base::warp_row, Base::rows_room, Base::other_room;
  static constexpr int kRows = static_cast<int>(Base::kRows), kOther = static_cast<int>(Base::kOther);

  __device__ __forceinline__ explicit BackwardQueries(const KwAttentionBackwardParams& p) : Base(p) {}

  __device__ __forceinline__ void run() const {
    const TileCoordinates at = tile_coordinates(blockIdx.x, p.sizes, p.tiles, p.section);
    const Sequence queries = sequence_of(p.sizes.starts_q, at.batch, p.sizes.queries);
    const Sequence keys = sequence_of(p.sizes.starts_k, at.batch, p.sizes.keys);
    const int first = at.tile * kRows, kv_head = at.head / (p.sizes.heads / p.sizes.kv_heads);
    if (first >= queries.count) return;
    const Scores<T> scores(p.score, at.batch, at.head, queries.count, keys.count);
    const int last = (first + kRows < queries.count ? first + kRows : queries.count) - 1;
    const int row = first + static_cast<int>(warp_row), mine = row + static_cast<int>(lane / 4);
    this->template copy<Base::kRows>(rows_room(0), p.q, at.batch, at.head, queries, first, p.sizes.d);
    this->template copy<Base::kRows>(rows_room(1), p.dout, at.batch, at.head, queries, first, p.sizes.d_v);
    float log[2], delta[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      log[half] = this->log_at(at.batch, at.head, queries, mine + half * 8);
      delta[half] = this->delta_at(at.batch, at.head, queries, mine + half * 8);
    }
    typename Base::Result dq;
#pragma unroll
    for (u32 i = 0; i < kD / 2; ++i) dq[i] = 0.0f;
    const int end = scores.end_key(last);
#pragma unroll 1
    for (int key = scores.first_key(first) / kOther * kOther; key < end; key += kOther) {
      this->template copy<Base::kOther>(other_room(0), p.k, at.batch, kv_head, keys, key, p.sizes.d);
      this->template copy<Base::kOther>(other_room(1), p.v, at.batch, kv_head, keys, key, p.sizes.d_v);
      copies_commit();
      copies_wait<0>();
      __syncthreads();
      typename Base::Tile s, by;
      rows_by_rows<T, Base::kChunks>(s[0], rows_room(0), warp_row, other_room(0), p.sizes.d);
      rows_by_rows<T, Base::kChunks>(by[0], rows_room(1), warp_row, other_room(1), p.sizes.d_v);
      this->probabilities(
          scores, s, by, mine, key + static_cast<int>(lane % 4 * 2), scores.sees_all(row, row + 15, key, key + kOther),
          [&](u32 i) { return log[i / 2 % 2]; }, [&](u32 i) { return delta[i / 2 % 2]; });
      add_by_rows<T, Base::kChunks>(dq, by[0], other_room(0), p.sizes.d);
      __syncthreads();  // nobody reads these keys any more
    }
    copies_commit();
    copies_wait<0>();
    __syncthreads();
    put_rows<T, Base::kChunks>(dq, p.score.scale, rows_room(0) + warp_row * kD * 2,
                               head_of(p.dq, at.batch, at.head, queries.first + row), p.dq.row, queries.count - row,
                               p.sizes.d, p.results_in_vectors != 0);
  }
};

// By keys and values: a block has a tile of them, and goes through the queries of all heads that read them. Where
// registers cannot hold both results, a block has one of them.
template <class T, u32 kD>
struct BackwardKeys : Differentiate<T, kD, true> {
  using Base = Differentiate<T, kD, true>;
  using Base::p, Base::lane, Base::warp_row, Base::rows_room, Base::other_room;
  static constexpr int kRows = static_cast<int>(Base::kRows), kOther = static_cast<int>(Base::kOther);
  static constexpr u32 kResults = Base::kApart ? 1 : 2;

  __device__ __forceinline__ explicit BackwardKeys(const KwAttentionBackwardParams& p) : Base(p) {}

  struct Task {
    int first, head, batch;  // of keys
    Sequence queries, keys;
    bool by_keys, by_values;  // which derivatives
  };

  // Of one head and one tile of queries.
  __device__ __forceinline__ void step(const Task& t, const Scores<T>& scores, int head, int query,
                                       typename Base::Result (&result)[kResults]) const {
    this->template copy<Base::kOther>(other_room(0), p.q, t.batch, head, t.queries, query, p.sizes.d);
    this->template copy<Base::kOther>(other_room(1), p.dout, t.batch, head, t.queries, query, p.sizes.d_v);
    copies_commit();
    for (int i = threadIdx.x; i < kOther; i += static_cast<int>(Base::kThreads)) {
      const u32 word[2] = {bits_of_float(this->log_at(t.batch, head, t.queries, query + i)),
                           bits_of_float(this->delta_at(t.batch, head, t.queries, query + i))};
      store_shared<8>(this->numbers() + i * 8, word);
    }
    copies_wait<0>();
    __syncthreads();
    const int row = t.first + static_cast<int>(warp_row);
    typename Base::Tile s, by;
    float log[kOther / 4], delta[kOther / 4];
#pragma unroll
    for (u32 i = 0; i < kOther / 4; ++i) {
      u32 word[2];
      load_shared<8>(this->numbers() + (i / 2 * 8 + lane % 4 * 2 + i % 2) * 8, word);
      log[i] = float_of_bits(word[0]), delta[i] = float_of_bits(word[1]);
    }
    rows_by_rows<T, Base::kChunks>(s[0], rows_room(0), warp_row, other_room(0), p.sizes.d);
    rows_by_rows<T, Base::kChunks>(by[0], rows_room(1), warp_row, other_room(1), p.sizes.d_v);
    const bool all = row + 16 <= t.keys.count && scores.sees_all(query, query + kOther - 1, row, row + 16);
    this->probabilities(
        scores, s, by, row + static_cast<int>(lane / 4), query + static_cast<int>(lane % 4 * 2), all,
        [&](u32 i) { return log[i / 4 * 2 + i % 2]; }, [&](u32 i) { return delta[i / 4 * 2 + i % 2]; });
    if (t.by_values) add_by_rows<T, Base::kChunks>(result[0], s[0], other_room(1), p.sizes.d_v);
    if (t.by_keys) add_by_rows<T, Base::kChunks>(result[kResults - 1], by[0], other_room(0), p.sizes.d);
    __syncthreads();  // nobody reads these queries any more
  }

  __device__ __forceinline__ Task task() const {
    Task t;
    u32 index = blockIdx.x;
    t.by_keys = t.by_values = true;
    if constexpr (Base::kApart) {
      t.by_keys = index % 2 == 0, t.by_values = !t.by_keys;
      index /= 2;
    }
    const u32 heads = p.sizes.kv_heads * p.sizes.batch;
    t.first = static_cast<int>(index / heads) * kRows;  // the first are seen by most queries
    t.head = static_cast<int>(index % heads % p.sizes.kv_heads);
    t.batch = static_cast<int>(index % heads / p.sizes.kv_heads);
    t.queries = sequence_of(p.sizes.starts_q, t.batch, p.sizes.queries);
    t.keys = sequence_of(p.sizes.starts_k, t.batch, p.sizes.keys);
    return t;
  }

  __device__ __forceinline__ void put(const typename Base::Result& result, float by, u32 which, const KwHeads& to,
                                      const Task& t, int d) const {
    const int row = t.first + static_cast<int>(warp_row);
    put_rows<T, Base::kChunks>(result, by, rows_room(which) + warp_row * kD * 2,
                               head_of(to, t.batch, t.head, t.keys.first + row), to.row, t.keys.count - row, d,
                               p.results_in_vectors != 0);
  }

  __device__ __forceinline__ void run() const {
    const Task t = task();
    if (t.first >= t.keys.count) return;
    this->template copy<Base::kRows>(rows_room(0), p.k, t.batch, t.head, t.keys, t.first, p.sizes.d);
    this->template copy<Base::kRows>(rows_room(1), p.v, t.batch, t.head, t.keys, t.first, p.sizes.d_v);
    typename Base::Result result[kResults];
#pragma unroll
    for (u32 i = 0; i < kResults * kD / 2; ++i) result[i / (kD / 2)][i % (kD / 2)] = 0.0f;
    const int last = (t.first + kRows < t.keys.count ? t.first + kRows : t.keys.count) - 1;
    const int each = p.sizes.heads / p.sizes.kv_heads;
#pragma unroll 1
    for (int head = t.head * each; head < (t.head + 1) * each; ++head) {
      const Scores<T> scores(p.score, t.batch, head, t.queries.count, t.keys.count);
      const int end = scores.end_query(last);
#pragma unroll 1
      for (int query = scores.first_query(t.first) / kOther * kOther; query < end; query += kOther) {
        step(t, scores, head, query, result);
      }
    }
    copies_commit();
    copies_wait<0>();
    __syncthreads();
    if (t.by_values) put(result[0], 1.0f, 1, p.dv, t, p.sizes.d_v);
    if (t.by_keys) put(result[kResults - 1], p.score.scale, 0, p.dk, t, p.sizes.d);
  }
};

#endif

}  // namespace kw
