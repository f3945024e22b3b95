// SPDX-License-Identifier: MIT
// Attention by warpgroups: one copies boxes of queries, keys and values to shared memory; two have 64 queries each.
// While a warpgroup's softmax of one tile of keys runs, the products of the tile before with its values do.
#pragma once

#include "device/pipeline.cuh"
#include "device/ptx/bulk.cuh"
#include "device/ptx/fence.cuh"
#include "device/ptx/hints.cuh"
#include "device/ptx/registers.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/ptx/wgmma_bf16_registers.cuh"
#include "device/ptx/wgmma_bf16_shared.cuh"
#include "device/ptx/wgmma_f16_registers.cuh"
#include "device/ptx/wgmma_f16_shared.cuh"
#include "ops/attention/device/rows.cuh"
#include "ops/attention/device/score.cuh"
#include "ops/attention/device/tile_coordinates.cuh"
#include "ops/attention/geometry.h"

namespace kw {

#ifdef KW_HAS_WGMMA

template <class T, u32 kD, u32 kDv>
struct AttendTma {
  static constexpr u32 kGroups = KW_ATTENTION_TMA_GROUPS(kD), kComputing = 128 * kGroups;
  static constexpr u32 kRows = KW_ATTENTION_TMA_ROWS(kD), kKeys = KW_ATTENTION_TMA_KEYS(kD);
  static constexpr u32 kColumns = KW_ATTENTION_TMA_COLUMNS(kD), kColumnsV = KW_ATTENTION_TMA_COLUMNS(kDv);
  static constexpr u32 kQBytes = kColumns * kRows * 128, kKBytes = kColumns * kKeys * 128;
  static constexpr u32 kVBytes = kColumnsV * kKeys * 128, kWarps = 4 * kGroups;
  static constexpr bool kApart = KW_ATTENTION_TMA_APART(kD) != 0;
  static constexpr u64 kLayout = smem_layout(Swizzle::k128, 1024);
  using Keys = Pipeline<KW_ATTENTION_TMA_STAGES, kKBytes>;
  using Values = Pipeline<KW_ATTENTION_TMA_STAGES, kVBytes>;

  // What belongs to one tile of queries.
  struct Task {
    TileCoordinates at;
    Sequence queries, keys;
    int begin, end;  // keys that are seen, in whole tiles of them
    bool empty;      // no query: nothing is copied or written
    __device__ __forceinline__ int first_row() const { return at.tile * static_cast<int>(kRows); }
  };

  const KwAttentionTmaParams& p;
  Keys keys;
  Values values;
  u32 q_room, out_room, words, q_full, q_empty, turns;

  __device__ __forceinline__ explicit AttendTma(const KwAttentionTmaParams& p) : p(p) {
    q_room = (shared_address(attention_shared()) + 1023) & ~1023u;
    keys.stages = q_room + kQBytes;
    values.stages = keys.stages + KW_ATTENTION_TMA_STAGES * kKBytes;
    out_room = kApart ? values.stages + KW_ATTENTION_TMA_STAGES * kVBytes : q_room;
    words = values.stages + KW_ATTENTION_TMA_STAGES * kVBytes + (kApart ? kColumnsV * kRows * 128 : 0);
    keys.barriers = words + kGroups * 512;
    values.barriers = keys.barriers + Keys::kBarrierBytes;
    q_full = values.barriers + Values::kBarrierBytes;
    q_empty = q_full + 8;
    turns = q_empty + 8;
  }

  __device__ __forceinline__ Task task(u32 index) const {
    Task t;
    t.at = tile_coordinates(index, p.sizes, p.tiles, p.section);
    t.queries = sequence_of(p.sizes.starts_q, t.at.batch, p.sizes.queries);
    t.keys = sequence_of(p.sizes.starts_k, t.at.batch, p.sizes.keys);
    const Scores<T> scores(p.score, t.at.batch, t.at.head, t.queries.count, t.keys.count);
    const int rest = t.queries.count - t.first_row(), most = static_cast<int>(kRows), rows = rest < most ? rest : most;
    constexpr int kTile = static_cast<int>(kKeys);
    t.empty = rest <= 0;
    t.begin = scores.first_key(t.first_row()) / kTile * kTile;
    t.end = scores.end_key(t.first_row() + rows - 1);
    if (t.end > t.begin) t.end = t.begin + (t.end - t.begin + kTile - 1) / kTile * kTile;
    return t;
  }

  template <u32 kBoxes, u32 kBoxRows>
  __device__ __forceinline__ void copy(u32 to, const KwTensorMap& map, int row, int head, int batch, u32 full) const {
#pragma unroll
    for (u32 i = 0; i < kBoxes; ++i) {
      const u32 at[4] = {i * 64, static_cast<u32>(row), static_cast<u32>(head), static_cast<u32>(batch)};
      tma_load(to + i * (kBoxRows * 128), &map, at, full);
    }
  }

  __device__ __forceinline__ void produce() const {
    typename Keys::Stage key;
    typename Values::Stage value;
    u32 parity = 1;
#pragma unroll 1
    for (u32 index = blockIdx.x; index < static_cast<u32>(p.count); index += gridDim.x) {
      const Task t = task(index);
      if (t.empty || t.begin >= t.end) continue;
      const int batch = p.sizes.starts_q == nullptr ? t.at.batch : 0;
      const int head = t.at.head / (p.sizes.heads / p.sizes.kv_heads);
      barrier_wait(q_empty, parity);
      parity ^= 1;
      barrier_expect(q_full, kQBytes);
      copy<kColumns, kRows>(q_room, p.q, t.queries.first + t.first_row(), t.at.head, batch, q_full);
#pragma unroll 1
      for (int at = t.end - static_cast<int>(kKeys); at >= t.begin; at -= static_cast<int>(kKeys)) {
        keys.acquire(key, kKBytes);
        copy<kColumns, kKeys>(keys.at(key), p.k, t.keys.first + at, head, batch, keys.full(key));
        key.advance();
        values.acquire(value, kVBytes);
        copy<kColumnsV, kKeys>(values.at(value), p.v, t.keys.first + at, head, batch, values.full(value));
        value.advance();
      }
    }
  }

  using ScoreTile = float[kKeys / 2];
  using Shares = u32[kKeys / 4];
  using Result = float[kDv / 2];

  __device__ __forceinline__ void score(ScoreTile& s, u32 group, const typename Keys::Stage& stage) const {
    const u32 left = smem_matrix(q_room) + group * (64 * 128 / 16), right = smem_matrix(keys.at(stage));
#pragma unroll
    for (u32 k = 0; k < kD / 16; ++k) {
      const u64 a = smem_descriptor(kLayout, left + k / 4 * (kRows * 128 / 16) + k % 4 * 2);
      const u64 b = smem_descriptor(kLayout, right + k / 4 * (kKeys * 128 / 16) + k % 4 * 2);
      if constexpr (T::kIsHalf) {
        wgmma_f16(s, a, b, k == 0 ? 0 : 1);
      } else {
        wgmma_bf16(s, a, b, k == 0 ? 0 : 1);
      }
    }
    wgmma_commit();
  }

  __device__ __forceinline__ void gather(Result& o, const Shares& shares, const typename Values::Stage& stage) const {
    const u32 right = smem_matrix(values.at(stage), kKeys * 128);
#pragma unroll
    for (u32 k = 0; k < kKeys / 16; ++k) {
      const u32 a[4] = {shares[k * 4], shares[k * 4 + 1], shares[k * 4 + 2], shares[k * 4 + 3]};
      const u64 b = smem_descriptor(kLayout, right + k * (16 * 128 / 16));
      if constexpr (T::kIsHalf) {
        wgmma_f16<1>(o, a, b, 1);
      } else {
        wgmma_bf16<1>(o, a, b, 1);
      }
    }
    wgmma_commit();
  }

  static __device__ __forceinline__ void pack(Shares& shares, const ScoreTile& s) {
#pragma unroll
    for (u32 i = 0; i < kKeys / 4; ++i) shares[i] = T::pack(s[i * 2], s[i * 2 + 1]);
  }

  // Registers that products read stay what they are until here.
  static __device__ __forceinline__ void keep(Shares& shares) {
#pragma unroll
    for (u32 i = 0; i < kKeys / 4; ++i) shares[i] = computed_here(shares[i]);
  }

  // Of sequences that lie one after the other: behind the last key are the next one's, which may be NaN, and 0 times
  // that is no 0.
  __device__ __forceinline__ void clear_values(const Task& t, int key, const typename Values::Stage& stage) const {
    const int there = t.keys.count - key;
    if (p.sizes.starts_k == nullptr || there >= static_cast<int>(kKeys)) return;
    values.wait(stage);
    const u32 zero[4] = {};
#pragma unroll 1
    for (u32 i = threadIdx.x - 128; i < kColumnsV * kKeys * 8; i += kComputing) {
      if (static_cast<int>(i / 8 % kKeys) >= there) store_shared(values.at(stage) + i * 16, zero);
    }
    fence_proxy_async();
    barrier_of(4, kComputing);
  }

  __device__ __forceinline__ void hide(ScoreTile& s, const Scores<T>& scores, const Task& t, int key, int row) const {
    if (scores.sees_all(row, row + 15, key, key + static_cast<int>(kKeys))) return;
    const u32 lane = threadIdx.x % 32;
    scores.hide(s, row + static_cast<int>(lane / 4), key + static_cast<int>(lane % 4 * 2));
  }

  // All keys of a tile of queries; `row`: the warp's first.
  __device__ __forceinline__ void attend(const Task& t, const Scores<T>& scores, u32 group, int row, Result& o,
                                         RowState (&state)[2], typename Keys::Stage& key, typename Values::Stage& value,
                                         u32& turn) const {
    ScoreTile s;
    Shares shares;
    float shrink[2];
    int at = t.end - static_cast<int>(kKeys);
    keys.wait(key);
    wgmma_fence();
    score(s, group, key);
    wgmma_wait<0>();
    wgmma_done(s);
    keys.template leave<1>(key);
    key.advance();
    hide(s, scores, t, at, row);
    soften(s, state, shrink, scores.multiplier);
    pack(shares, s);
    clear_values(t, at, value);
#pragma unroll 1
    for (; at > t.begin; at -= static_cast<int>(kKeys)) {
      const int next = at - static_cast<int>(kKeys);
      keys.wait(key);
      barrier_wait(turns + group * 8, turn);
      turn ^= 1;
      wgmma_fence();
      score(s, group, key);
      values.wait(value);
      gather(o, shares, value);
      if (threadIdx.x % 32 == 0) barrier_arrive(turns + (group + 1) % kGroups * 8);
      wgmma_wait<1>();
      wgmma_done(s);
      keys.template leave<1>(key);
      key.advance();
      hide(s, scores, t, next, row);
      soften(s, state, shrink, scores.multiplier);
      // Keeps the wait for the values behind the exponentials: without a use of them there ptxas has it before.
      const u32 word[1] = {bits_of_float(state[0].sum + state[1].sum)};
      store_shared<4>(words + (threadIdx.x - 128) * 4, word);
      wgmma_wait<0>();
      wgmma_done(o);
      keep(shares);
      values.template leave<1>(value);
      value.advance();
      scale_rows(o, shrink);
      pack(shares, s);
    }
    if (kApart && threadIdx.x % 32 == 0) barrier_arrive(q_empty);
    values.wait(value);
    wgmma_fence();
    gather(o, shares, value);
    wgmma_wait<0>();
    wgmma_done(o);
    keep(shares);
    values.template leave<1>(value);
    value.advance();
  }

  // Divides, and writes 16 rows and their logarithms, by way of the queries' memory.
  __device__ __forceinline__ void finish(Result& o, const RowState (&state)[2], const Task& t, float multiplier,
                                         u32 warp_row) const {
    const u32 lane = threadIdx.x % 32, room = out_room + warp_row * 128;
    const int first = t.first_row() + static_cast<int>(warp_row);
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
      float lse;
      const float share = row_end(state[half], multiplier, &lse);
      const u32 row = lane / 4 + half * 8;
      const int mine = first + static_cast<int>(row);
      if (p.lse != nullptr && lane % 4 == 0 && mine < t.queries.count)
        p.lse[t.at.batch * p.sizes.lse_batch + t.at.head * p.sizes.lse_head + t.queries.first + mine] = lse;
#pragma unroll
      for (u32 n = 0; n < kDv / 8; ++n) {
        const u32 pair[1] = {T::pack(o[n * 4 + half * 2] * share, o[n * 4 + half * 2 + 1] * share)};
        store_shared<4>(room + n / 8 * (kRows * 128) + chunk_at<8>(0, row, n % 8) + lane % 4 * 4, pair);
      }
    }
#pragma unroll 1
    for (u32 i = 0; i < kColumnsV; ++i) {
      store_rows<T, 8>(room + i * (kRows * 128),
                       head_of(p.out, t.at.batch, t.at.head, t.queries.first + first) + i * 128, p.out.row,
                       t.queries.count - first, p.sizes.d_v - static_cast<int>(i * 64), p.out_vectors != 0);
    }
  }

  __device__ __forceinline__ void consume() const {
    const u32 warp = same_in_warp(threadIdx.x / 32) - 4, group = warp / 4;
    typename Keys::Stage key;
    typename Values::Stage value;
    u32 parity = 0, turn = group == 0 ? 1 : 0;  // the first has its first turn at once
#pragma unroll 1
    for (u32 index = blockIdx.x; index < static_cast<u32>(p.count); index += gridDim.x) {
      const Task t = task(index);
      if (t.empty) continue;
      const Scores<T> scores(p.score, t.at.batch, t.at.head, t.queries.count, t.keys.count);
      Result o;
#pragma unroll
      for (u32 i = 0; i < kDv / 2; ++i) o[i] = 0.0f;
      const RowState start = row_start(p.score.sinks, t.at.head, scores.multiplier);
      RowState state[2] = {start, start};
      const bool any = t.begin < t.end;
      if (any) {
        barrier_wait(q_full, parity);
        parity ^= 1;
        attend(t, scores, group, t.first_row() + static_cast<int>(warp * 16), o, state, key, value, turn);
        if (!kApart) barrier_of(1 + group, 128);  // no warp of the four multiplies by queries any more
      }
      finish(o, state, t, scores.multiplier, warp * 16);
      if (kApart) continue;
      fence_proxy_async();
      __syncwarp();
      if (any && threadIdx.x % 32 == 0) barrier_arrive(q_empty);
    }
  }

  __device__ __forceinline__ void run() const {
    if (threadIdx.x == 0) {
      barrier_init(q_full, 1);
      barrier_init(q_empty, kWarps);
      for (u32 i = 0; i < kGroups; ++i) barrier_init(turns + i * 8, 4);
      keys.init(kWarps);
      values.init(kWarps);
    }
    __syncthreads();
    if (threadIdx.x < 128) {
      release_registers<kGroups == 2 ? 24 : 32>();
      if (threadIdx.x < 32 && one_lane()) produce();
    } else {
      take_registers<kGroups == 2 ? 240 : 160>();
      consume();
    }
  }
};

#endif

}  // namespace kw
