// SPDX-License-Identifier: MIT
// The derivatives of attention by warpgroups where rows are long: a block has 64 keys, and two warpgroups half the
// columns of what becomes dk, dv and dq each. One makes probabilities, the other their derivatives, and both hand them
// on through shared memory.
#pragma once

#include "device/ptx/matrix.cuh"
#include "device/ptx/registers.cuh"
#include "device/ptx/stmatrix.cuh"
#include "ops/attention/device/derive_block.cuh"

namespace kw {

#ifdef KW_HAS_WGMMA

template <class T, u32 kD>
struct DeriveWide : DeriveBlock<T, kD> {
  using Base = DeriveBlock<T, kD>;
  using Base::p, Base::queries, Base::douts, Base::k_room, Base::v_room, Base::numbers, Base::slopes_room,
      Base::slopes_full, Base::kKeys, Base::kQueries, Base::kLayout, Base::kSlopeBytes, Base::kNumberBytes;
  using typename Base::Task, typename Base::Stage, typename Base::ScoreTile, typename Base::Shares,
      typename Base::Result;
  using Sums = float[kD / 4];
  static_assert(kKeys == 64 && kQueries == 64, "a warpgroup multiplies 64 rows");

  __device__ __forceinline__ explicit DeriveWide(const KwAttentionDeriveParams& p) : Base(p) {}

  // Where probabilities lie, behind two tiles of their derivatives, a row for each key: a warp may write those of the
  // next tile of queries before another has multiplied by this one's.
  __device__ __forceinline__ u32 shares_room() const { return slopes_room + 2 * kSlopeBytes; }
  __device__ __forceinline__ u32 shares_full() const { return slopes_full + Base::kStages * 8; }

  // Where a lane's row of four matrices lies, of 16 queries from k times 16 on; `warp` of the four.
  static __device__ __forceinline__ u32 matrices_at(u32 room, u32 warp, u32 k) {
    const u32 lane = threadIdx.x % 32;
    return chunk_at<8>(room, warp * 16 + lane % 16, k * 2 + lane / 16);
  }

  static __device__ __forceinline__ void give(const Shares& shares, u32 room, u32 full, u32 warp) {
#pragma unroll
    for (u32 k = 0; k < kQueries / 16; ++k) {
      const u32 word[4] = {shares[k * 4], shares[k * 4 + 1], shares[k * 4 + 2], shares[k * 4 + 3]};
      store_matrices(matrices_at(room, warp, k), word);
    }
    fence_proxy_async();
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(full);
  }

  static __device__ __forceinline__ void take(Shares& shares, u32 room, u32 warp) {
#pragma unroll
    for (u32 k = 0; k < kQueries / 16; ++k) {
      u32 word[4];
      load_matrices(matrices_at(room, warp, k), word);
#pragma unroll
      for (u32 i = 0; i < 4; ++i) shares[k * 4 + i] = word[i];
    }
    __syncwarp();
  }

  // The scores' derivatives of 64 queries times half the columns of keys.
  __device__ __forceinline__ void by_keys(Sums& sums, u32 group, u32 slopes) const {
    const u32 left = smem_matrix(slopes), right = smem_matrix(columns(k_room, kKeys, group), kKeys * 128);
#pragma unroll
    for (u32 k = 0; k < kKeys / 16; ++k) {
      const u64 a = smem_descriptor(kLayout, left + k * (16 * 128 / 16));
      const u64 b = smem_descriptor(kLayout, right + k * (16 * 128 / 16));
      if constexpr (T::kIsHalf) {
        wgmma_f16<1, 1>(sums, a, b, k == 0 ? 0 : 1);
      } else {
        wgmma_bf16<1, 1>(sums, a, b, k == 0 ? 0 : 1);
      }
    }
    wgmma_commit();
  }

  // Where a warpgroup's half of the columns of so many rows begins.
  static __device__ __forceinline__ u32 columns(u32 room, u32 rows, u32 group) {
    return room + group * (kD / 128) * (rows * 128);
  }

  // From products to probabilities, and on to their derivatives in the other warpgroup: each hands on what it has.
  // `slopes` are the first one's later.
  __device__ __forceinline__ void exchange(ScoreTile& s, Shares& shares, Shares& slopes, const Task& t,
                                           const Scores<T>& scores, int query, u32 group, u32 warp, const Stage& stage,
                                           u32 parity) const {
    const u32 number = numbers + stage.index * kNumberBytes;
    if (group == 0) {
      this->probabilities(s, scores, t.first + static_cast<int>(warp * 16), query, number);
      this->pack(shares, s);
      give(shares, shares_room(), shares_full(), warp);
    } else {
      barrier_wait(shares_full(), parity);
      take(shares, shares_room(), warp);
      this->template differentiate<true>(s, s, shares, number + kQueries * 4);
      this->pack(slopes, s);
      give(slopes, slopes_room + stage.index * kSlopeBytes, slopes_full + stage.index * 8, warp);
    }
  }

  // Of one tile of queries, number `count` of the block's and `tile` of all in memory.
  __device__ __forceinline__ void step(const Task& t, const Scores<T>& scores, int query, u32 group, u32 warp,
                                       int count, int tile, Result& dk, Result& dv) const {
    const Stage stage = this->stage_of(count);
    const u32 q_at = queries.at(stage), dout_at = douts.at(stage), slopes_at = slopes_room + stage.index * kSlopeBytes;
    ScoreTile s;
    Shares shares, slopes;
    Sums sums;
    queries.wait(stage);
    this->template clear<kQueries>(q_at, t.queries.count - query);
    douts.wait(stage);
    this->template clear<kQueries>(dout_at, t.queries.count - query);
    wgmma_fence();
    this->by_queries(s, group == 0 ? k_room : v_room, 0, group == 0 ? q_at : dout_at);
    wgmma_wait<0>();
    wgmma_done(s);
    exchange(s, shares, slopes, t, scores, query, group, warp, stage, count & 1);
    wgmma_fence();
    this->gather(dv, shares, columns(dout_at, kQueries, group));
    barrier_wait(slopes_full + stage.index * 8, stage.phase);
    take(slopes, slopes_at, warp);
    wgmma_fence();
    this->gather(dk, slopes, columns(q_at, kQueries, group));
    wgmma_wait<1>();
    wgmma_done(dv);
    this->keep(shares);
    douts.template leave<1>(stage);
    wgmma_fence();
    by_keys(sums, group, slopes_at);
    wgmma_wait<1>();
    wgmma_done(dk);
    this->keep(slopes);
    __syncwarp();  // all lanes have read the stage's numbers
    queries.template leave<1>(stage);
    wgmma_wait<0>();
    wgmma_done(sums);
    this->add_sums(sums, group, tile);
  }

  __device__ __forceinline__ void consume(const Task& t) const {
    const u32 of = same_in_warp(threadIdx.x / 32) - 4, group = of / 4, warp = of % 4;
    const Scores<T> scores(p.score, t.batch, 0, t.queries.count, t.keys.count);
    Result dk, dv;
#pragma unroll
    for (u32 i = 0; i < kD / 4; ++i) dk[i] = 0.0f, dv[i] = 0.0f;
    const int all = this->steps(t);
    if (all > 0) this->wait_for_keys(t);
    int query = t.begin, tile = this->first_tile(t);
#pragma unroll 1
    for (int count = 0; count < all; ++count) {
      step(t, scores, query, group, warp, count, tile, dk, dv);
      this->advance(t, query, tile);
    }
    barrier_of(1, Base::kComputing);  // nobody multiplies by these keys any more
    this->put(dv, 1.0f, v_room, warp * 16, group * (kD / 2), p.dv, t, p.sizes.d_v);
    this->put(dk, p.score.scale, k_room, warp * 16, group * (kD / 2), p.dk, t, p.sizes.d);
  }

  __device__ __forceinline__ void run() const {
    const Task t = this->task();
    if (t.first >= t.keys.count) return;
    if (threadIdx.x == 0) {
      barrier_init(shares_full(), 4);
      this->init(4);
    }
    __syncthreads();
    if (threadIdx.x < 128) {
      release_registers<24>();
      if (threadIdx.x < 32 && one_lane()) this->produce(t);
    } else {
      take_registers<240>();
      consume(t);
    }
  }
};

#endif

}  // namespace kw
