// SPDX-License-Identifier: MIT
// Attention by warps (mma.sync, cp.async), of any strides and all that scores may be. A block has a tile of queries and
// goes through the keys that they see; while it multiplies by values the next keys come, and the other way round.
#pragma once

#include "ops/attention/device/products.cuh"
#include "ops/attention/device/rows.cuh"
#include "ops/attention/device/score.cuh"
#include "ops/attention/device/softmax.cuh"
#include "ops/attention/device/tile_coordinates.cuh"
#include "ops/attention/geometry.h"

namespace kw {

#ifdef KW_HAS_BF16_MMA

template <class T, u32 kD>
struct Attend {
  static constexpr u32 kThreads = KW_ATTENTION_THREADS, kKeys = KW_ATTENTION_KEYS, kRows = KW_ATTENTION_ROWS(kD);
  static constexpr u32 kChunks = kD / 8, kTall = kRows / 64;  // of 16 rows, a warp's
  static constexpr u32 kColumns = kKeys / 8, kWide = kD / 8;  // of 8 columns: of scores, and of a result
  using ScoreTile = float[kTall][kColumns * 4];
  using Result = float[kTall][kWide * 4];

  const KwAttentionParams& p;
  TileCoordinates at;
  Sequence queries, keys;
  u32 q_room, k_room, v_room;
  u32 lane, warp_row;  // a warp's first row in the tile

  __device__ __forceinline__ explicit Attend(const KwAttentionParams& p)
      : p(p),
        at(tile_coordinates(blockIdx.x, p.sizes, p.tiles, p.section)),
        queries(sequence_of(p.sizes.starts_q, at.batch, p.sizes.queries)),
        keys(sequence_of(p.sizes.starts_k, at.batch, p.sizes.keys)),
        q_room(shared_address(attention_shared())),
        k_room(q_room + kRows * kD * 2),
        v_room(k_room + kKeys * kD * 2),
        lane(threadIdx.x % 32),
        warp_row(threadIdx.x / 32 * 16 * kTall) {}

  __device__ __forceinline__ int first_row() const { return at.tile * static_cast<int>(kRows); }

  __device__ __forceinline__ void copy_keys(u32 room, const KwHeads& from, int key, int d) const {
    const int head = at.head / (p.sizes.heads / p.sizes.kv_heads);
    copy_rows<kKeys, kChunks, kThreads>(room, head_of(from, at.batch, head, keys.first + key), from.row,
                                        keys.count - key, d, p.vectors != 0);
    copies_commit();
  }

  // Products of the warp's queries and the keys in shared memory.
  __device__ __forceinline__ void products(ScoreTile& s) const {
#pragma unroll
    for (u32 i = 0; i < kTall * kColumns * 4; ++i) s[i / (kColumns * 4)][i % (kColumns * 4)] = 0.0f;
#pragma unroll
    for (u32 k = 0; k < kD / 16; ++k) {
      if (static_cast<int>(k * 16) >= p.sizes.d) break;
      u32 a[kTall][4];
#pragma unroll
      for (u32 m = 0; m < kTall; ++m) {
        load_matrices(chunk_at<kChunks>(q_room, warp_row + m * 16 + lane % 16, k * 2 + lane / 16), a[m]);
      }
#pragma unroll
      for (u32 n = 0; n < kColumns; n += 2) {
        u32 b[4];
        load_matrices(chunk_at<kChunks>(k_room, n * 8 + lane / 16 * 8 + lane % 8, k * 2 + lane / 8 % 2), b);
#pragma unroll
        for (u32 m = 0; m < kTall; ++m) {
          multiply_add<T>(reinterpret_cast<float (&)[4]>(s[m][n * 4]), a[m], b[0], b[1]);
          multiply_add<T>(reinterpret_cast<float (&)[4]>(s[m][n * 4 + 4]), a[m], b[2], b[3]);
        }
      }
    }
  }

  // Probabilities in the type of v, times the values in shared memory.
  __device__ __forceinline__ void gather(Result& o, const ScoreTile& s) const {
#pragma unroll
    for (u32 k = 0; k < kKeys / 16; ++k) {
      u32 a[kTall][4];
#pragma unroll
      for (u32 i = 0; i < kTall * 4; ++i) {
        const u32 first = k * 8 + i % 4 * 2;
        a[i / 4][i % 4] = T::pack(s[i / 4][first], s[i / 4][first + 1]);
      }
#pragma unroll
      for (u32 n = 0; n < kWide; n += 2) {
        if (static_cast<int>(n * 8) >= p.sizes.d_v) break;
        u32 b[4];
        load_matrices_transposed(chunk_at<kChunks>(v_room, k * 16 + lane % 16, n + lane / 16), b);
#pragma unroll
        for (u32 m = 0; m < kTall; ++m) {
          multiply_add<T>(reinterpret_cast<float (&)[4]>(o[m][n * 4]), a[m], b[0], b[1]);
          multiply_add<T>(reinterpret_cast<float (&)[4]>(o[m][n * 4 + 4]), a[m], b[2], b[3]);
        }
      }
    }
  }

  // Of one tile of keys.
  __device__ __forceinline__ void step(const Scores<T>& scores, int key, Result& o, RowState (&row)[kTall][2],
                                       bool last) const {
    copies_wait<0>();
    __syncthreads();  // the keys are there, and nobody multiplies by the values before any more
    copy_keys(v_room, p.v, key, p.sizes.d_v);
    ScoreTile s;
    products(s);
    copies_wait<0>();
    __syncthreads();  // the values are there, and nobody multiplies by these keys any more
    if (!last) copy_keys(k_room, p.k, key + static_cast<int>(kKeys), p.sizes.d);
    const int top = first_row() + static_cast<int>(warp_row);
    if (scores.transforms || scores.mask != nullptr)
      scores.transform(s, top + static_cast<int>(lane / 4), key + static_cast<int>(lane % 4 * 2));
#pragma unroll
    for (u32 m = 0; m < kTall; ++m) {
      const int first = top + static_cast<int>(m * 16);
      const int mine = first + static_cast<int>(lane / 4), column = key + static_cast<int>(lane % 4 * 2);
      if (!scores.sees_all(first, first + 15, key, key + static_cast<int>(kKeys))) scores.hide(s[m], mine, column);
      float shrink[2];
      soften(s[m], row[m], shrink, scores.multiplier);
      scale_rows(o[m], shrink);
    }
    gather(o, s);
  }

  // Divides, and writes 16 rows and their logarithms.
  __device__ __forceinline__ void finish(float (&o)[kWide * 4], const RowState (&row)[2], float multiplier,
                                         u32 tall) const {
    const u32 room = q_room + (warp_row + tall * 16) * kD * 2;
    const int first = first_row() + static_cast<int>(warp_row + tall * 16);
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
      float lse;
      const float share = row_end(row[half], multiplier, &lse);
      const int mine = first + static_cast<int>(lane / 4 + half * 8);
      if (p.lse != nullptr && lane % 4 == 0 && mine < queries.count)
        p.lse[at.batch * p.sizes.lse_batch + at.head * p.sizes.lse_head + queries.first + mine] = lse;
#pragma unroll
      for (u32 n = 0; n < kWide; ++n) {
        const u32 pair[1] = {T::pack(o[n * 4 + half * 2] * share, o[n * 4 + half * 2 + 1] * share)};
        store_shared<4>(chunk_at<kChunks>(room, lane / 4 + half * 8, n) + lane % 4 * 4, pair);
      }
    }
    store_rows<T, kChunks>(room, head_of(p.out, at.batch, at.head, queries.first + first), p.out.row,
                           queries.count - first, p.sizes.d_v, p.out_vectors != 0);
  }

  __device__ __forceinline__ void run() const {
    if (first_row() >= queries.count) return;
    const Scores<T> scores(p.score, at.batch, at.head, queries.count, keys.count);
    const int rest = queries.count - first_row(),
              rows = rest < static_cast<int>(kRows) ? rest : static_cast<int>(kRows);
    const int begin = scores.first_key(first_row()) / static_cast<int>(kKeys) * static_cast<int>(kKeys);
    const int end = scores.end_key(first_row() + rows - 1);
    copy_rows<kRows, kChunks, kThreads>(q_room, head_of(p.q, at.batch, at.head, queries.first + first_row()), p.q.row,
                                        rest, p.sizes.d, p.vectors != 0);
    if (begin < end) copy_keys(k_room, p.k, begin, p.sizes.d);
    Result o;
    RowState row[kTall][2];
#pragma unroll
    for (u32 i = 0; i < kTall * kWide * 4; ++i) o[i / (kWide * 4)][i % (kWide * 4)] = 0.0f;
#pragma unroll
    for (u32 i = 0; i < kTall * 2; ++i) row[i / 2][i % 2] = row_start(p.score.sinks, at.head, scores.multiplier);
#pragma unroll 1
    for (int key = begin; key < end; key += static_cast<int>(kKeys)) {
      step(scores, key, o, row, key + static_cast<int>(kKeys) >= end);
    }
    copies_commit();
    copies_wait<0>();
    __syncthreads();  // queries came by all threads
#pragma unroll
    for (u32 m = 0; m < kTall; ++m) finish(o[m], row[m], scores.multiplier, m);
  }
};

#endif

}  // namespace kw
