// SPDX-License-Identifier: MIT
// What warpgroups do for a tile of queries whatever its elements are: which keys it sees, boxes to shared memory, and
// results from registers to memory.
#pragma once

#include "device/pipeline.cuh"
#include "device/ptx/hints.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/wgmma.cuh"
#include "ops/attention/device/rows.cuh"
#include "ops/attention/device/score.cuh"
#include "ops/attention/device/tile_coordinates.cuh"

namespace kw {

#ifdef KW_HAS_WGMMA

// What belongs to one tile of queries.
template <u32 kRows>
struct TmaTask {
  TileCoordinates at;
  Sequence queries, keys;
  int begin, end;  // keys that are seen, in whole tiles of them
  bool empty;      // no query: nothing is copied or written
  __device__ __forceinline__ int first_row() const { return at.tile * static_cast<int>(kRows); }
};

template <class T, u32 kRows, u32 kKeys>
__device__ __forceinline__ TmaTask<kRows> tma_task(const KwAttentionTmaParams& p, u32 index) {
  TmaTask<kRows> t;
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

// Boxes side by side, of kColumns elements of each row.
template <u32 kBoxes, u32 kBoxBytes, u32 kColumns>
__device__ __forceinline__ void tma_copy(u32 to, const KwTensorMap& map, int row, int head, int batch, u32 full) {
#pragma unroll
  for (u32 i = 0; i < kBoxes; ++i) {
    const u32 at[4] = {i * kColumns, static_cast<u32>(row), static_cast<u32>(head), static_cast<u32>(batch)};
    tma_load(to + i * kBoxBytes, &map, at, full);
  }
}

// Scores of a warp's 16 rows that are not to be seen; `row`: its first.
template <u32 kKeys, class T, u32 kCount>
__device__ __forceinline__ void tma_hide(float (&s)[kCount], const Scores<T>& scores, int key, int row) {
  if (scores.sees_all(row, row + 15, key, key + static_cast<int>(kKeys))) return;
  const u32 lane = threadIdx.x % 32;
  scores.hide(s, row + static_cast<int>(lane / 4), key + static_cast<int>(lane % 4 * 2));
}

// Of one thread: the boxes of all tiles of a block. `A` is the kernel; kBox elements of a row are in a box.
template <class A>
__device__ __forceinline__ void tma_produce(const A& a) {
  constexpr u32 kQBox = A::kQBytes / A::kColumns, kKBox = A::kKBytes / A::kColumns, kVBox = A::kVBytes / A::kColumnsV;
  constexpr int kKeys = static_cast<int>(A::kKeys);
  const KwAttentionTmaParams& p = a.p;
  typename A::Keys::Stage key;
  typename A::Values::Stage value;
  u32 parity = 1;
#pragma unroll 1
  for (u32 index = blockIdx.x; index < static_cast<u32>(p.count); index += gridDim.x) {
    const typename A::Task t = a.task(index);
    if (t.empty || t.begin >= t.end) continue;
    const int batch = p.sizes.starts_q == nullptr ? t.at.batch : 0;
    const int head = t.at.head / (p.sizes.heads / p.sizes.kv_heads);
    barrier_wait(a.q_empty, parity);
    parity ^= 1;
    barrier_expect(a.q_full, A::kQBytes);
    tma_copy<A::kColumns, kQBox, A::kBox>(a.q_room, p.q, t.queries.first + t.first_row(), t.at.head, batch, a.q_full);
#pragma unroll 1
    for (int at = t.end - kKeys; at >= t.begin; at -= kKeys) {
      a.keys.acquire(key, A::kKBytes);
      tma_copy<A::kColumns, kKBox, A::kBox>(a.keys.at(key), p.k, t.keys.first + at, head, batch, a.keys.full(key));
      key.advance();
      a.values.acquire(value, A::kVBytes);
      tma_copy<A::kColumnsV, kVBox, A::kBox>(a.values.at(value), p.v, t.keys.first + at, head, batch,
                                             a.values.full(value));
      value.advance();
    }
  }
}

// Registers that products read stay what they are until here.
template <u32 kCount>
__device__ __forceinline__ void tma_keep(u32 (&shares)[kCount]) {
#pragma unroll
  for (u32 i = 0; i < kCount; ++i) shares[i] = computed_here(shares[i]);
}

// All keys of a tile of queries, by the warpgroups in turns; `row`: the warp's first. While the softmax of one tile of
// keys runs, the products of the tile before with its values do: those that A::gathered() has stages of.
template <class A, class T>
__device__ __forceinline__ void tma_attend(const A& a, const typename A::Task& t, const Scores<T>& scores, u32 group,
                                           int row, typename A::Result& o, RowState (&state)[2],
                                           typename A::Keys::Stage& key, typename A::Values::Stage& value, u32& turn) {
  constexpr int kKeys = static_cast<int>(A::kKeys);
  typename A::ScoreTile s;
  typename A::Shares shares;
  float shrink[2];
  int at = t.end - kKeys;
  a.keys.wait(key);
  wgmma_fence();
  a.score(s, group, key);
  wgmma_wait<0>();
  wgmma_done(s);
  a.keys.template leave<1>(key);
  key.advance();
  a.scale(s);
  tma_hide<A::kKeys>(s, scores, at, row);
  soften<A::kRaised>(s, state, shrink, scores.multiplier);
  a.pack(shares, s);
  a.clear_values(t, at, value);
#pragma unroll 1
  for (; at > t.begin; at -= kKeys) {
    const int next = at - kKeys;
    a.keys.wait(key);
    barrier_wait(a.turns + group * 8, turn);
    turn ^= 1;
    wgmma_fence();
    a.score(s, group, key);
    a.gathered().wait(value);
    a.gather(o, shares, value);
    if (threadIdx.x % 32 == 0) barrier_arrive(a.turns + (group + 1) % A::kGroups * 8);
    wgmma_wait<1>();
    wgmma_done(s);
    a.keys.template leave<1>(key);
    key.advance();
    a.scale(s);
    tma_hide<A::kKeys>(s, scores, next, row);
    soften<A::kRaised>(s, state, shrink, scores.multiplier);
    // Keeps the wait for the values behind the exponentials: without a use of them there ptxas has it before.
    const u32 word[1] = {bits_of_float(state[0].sum + state[1].sum)};
    store_shared<4>(a.words + (threadIdx.x - 128) * 4, word);
    wgmma_wait<0>();
    wgmma_done(o);
    tma_keep(shares);
    a.gathered().template leave<1>(value);
    value.advance();
    scale_rows(o, shrink);
    a.pack(shares, s);
  }
  if (A::kApart && threadIdx.x % 32 == 0) barrier_arrive(a.q_empty);
  a.gathered().wait(value);
  wgmma_fence();
  a.gather(o, shares, value);
  wgmma_wait<0>();
  wgmma_done(o);
  tma_keep(shares);
  a.gathered().template leave<1>(value);
  value.advance();
}

// Divides, and writes 16 rows and their logarithms by way of shared memory: `warp_row`, of the tile, is at `room`, and
// kRows of 64 elements lie one after the other. `Pack` makes two elements of two numbers; `by`: one more factor.
template <u32 kRows, u32 kDv, int kRaised, class Pack>
__device__ __forceinline__ void tma_finish(const float (&o)[kDv / 2], const RowState (&state)[2],
                                           const KwAttentionTmaParams& p, const TmaTask<kRows>& t, float multiplier,
                                           float by, u32 warp_row, u32 room, const Pack& pack) {
  const u32 lane = threadIdx.x % 32;
  const int first = t.first_row() + static_cast<int>(warp_row);
#pragma unroll
  for (u32 half = 0; half < 2; ++half) {
    float lse;
    const float share = row_end<kRaised>(state[half], multiplier, &lse) * by;
    const u32 row = lane / 4 + half * 8;
    const int mine = first + static_cast<int>(row);
    if (p.lse != nullptr && lane % 4 == 0 && mine < t.queries.count)
      p.lse[t.at.batch * p.sizes.lse_batch + t.at.head * p.sizes.lse_head + t.queries.first + mine] = lse;
#pragma unroll
    for (u32 n = 0; n < kDv / 8; ++n) {
      const u32 pair[1] = {pack(o[n * 4 + half * 2] * share, o[n * 4 + half * 2 + 1] * share)};
      store_shared<4>(room + n / 8 * (kRows * 128) + chunk_at<8>(0, row, n % 8) + lane % 4 * 4, pair);
    }
  }
#pragma unroll 1
  for (u32 i = 0; i < (kDv + 63) / 64; ++i) {
    store_rows<BFloat16, 8>(room + i * (kRows * 128),
                            head_of(p.out, t.at.batch, t.at.head, t.queries.first + first) + i * 128, p.out.row,
                            t.queries.count - first, p.sizes.d_v - static_cast<int>(i * 64), p.out_vectors != 0);
  }
}

#endif

}  // namespace kw
