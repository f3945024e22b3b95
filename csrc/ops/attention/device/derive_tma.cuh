// SPDX-License-Identifier: MIT
// The derivatives of attention by warpgroups: a block has 128 keys and goes through the queries of all heads that read
// them. Two warpgroups have 64 keys each: what becomes dk and dv stays in their registers, where probabilities and
// their derivatives are the left matrices of products. What becomes dq is a product over the keys of both, and added to
// sums in memory, in any order.
#pragma once

#include "device/ptx/registers.cuh"
#include "device/ptx/stmatrix.cuh"
#include "ops/attention/device/derive_block.cuh"

namespace kw {

#ifdef KW_HAS_WGMMA

template <class T, u32 kD>
struct DeriveTma : DeriveBlock<T, kD> {
  using Base = DeriveBlock<T, kD>;
  using Base::p, Base::queries, Base::douts, Base::k_room, Base::v_room, Base::numbers, Base::slopes_room,
      Base::slopes_full, Base::kKeys, Base::kQueries, Base::kLayout, Base::kSlopeBytes, Base::kNumberBytes;
  using typename Base::Task, typename Base::Stage, typename Base::ScoreTile, typename Base::Shares,
      typename Base::Result;
  using Sums = float[32];

  __device__ __forceinline__ explicit DeriveTma(const KwAttentionDeriveParams& p) : Base(p) {}

  // The scores' derivatives of 64 queries times all keys: each warpgroup has 64 columns of them, or 64 queries.
  __device__ __forceinline__ void by_keys(Sums& sums, u32 group, u32 slopes) const {
    const u32 left = smem_matrix(slopes) + (kD > 64 ? 0 : group * (64 * 128 / 16));
    const u32 right = smem_matrix(k_room + (kD > 64 ? group * (kKeys * 128) : 0), kKeys * 128);
#pragma unroll
    for (u32 k = 0; k < kKeys / 16; ++k) {
      const u64 a = smem_descriptor(kLayout, left + k / 4 * (kQueries * 128 / 16) + k % 4 * 2);
      const u64 b = smem_descriptor(kLayout, right + k * (16 * 128 / 16));
      if constexpr (T::kIsHalf) {
        wgmma_f16<0, 1>(sums, a, b, k == 0 ? 0 : 1);
      } else {
        wgmma_bf16<0, 1>(sums, a, b, k == 0 ? 0 : 1);
      }
    }
    wgmma_commit();
  }

  // To shared memory, a row for each query; `warp` of the eight.
  __device__ __forceinline__ void put_slopes(const Shares& slopes, u32 warp, u32 room) const {
    const u32 lane = threadIdx.x % 32, to = room + warp / 4 * (kQueries * 128);
#pragma unroll
    for (u32 k = 0; k < kQueries / 16; ++k) {
      const u32 word[4] = {slopes[k * 4], slopes[k * 4 + 1], slopes[k * 4 + 2], slopes[k * 4 + 3]};
      store_matrices_transposed(chunk_at<8>(to, k * 16 + lane / 16 * 8 + lane % 8, warp % 4 * 2 + lane / 8 % 2), word);
    }
    fence_proxy_async();
  }

  // Where sums wait until they have left, behind all else.
  __device__ __forceinline__ u32 sums_room(u32 group) const { return Base::end + group * (Base::kSumBytes / 2); }

  // Sums, as they lie in registers, to those in memory; `tile` of all. Nobody's former ones wait any more.
  __device__ __forceinline__ void send_sums(const Sums& sums, u32 group, int tile) const {
    const u32 room = sums_room(group), thread = threadIdx.x % 128;
#pragma unroll
    for (u32 i = 0; i < 8; ++i) {
      const u32 word[4] = {bits_of_float(sums[i * 4]), bits_of_float(sums[i * 4 + 1]), bits_of_float(sums[i * 4 + 2]),
                           bits_of_float(sums[i * 4 + 3])};
      store_shared<16>(room + i * (128 * 16) + thread * 16, word);
    }
    fence_proxy_async();
    barrier_of(2 + group, 128);
    if (thread != 0) return;
    char* const to = reinterpret_cast<char*>(p.sums) + i64{tile} * Base::kSumBytes + group * (Base::kSumBytes / 2);
    bulk_reduce_add(reinterpret_cast<float*>(to), room, Base::kSumBytes / 2);
    bulk_commit();
  }

  // Of one tile of queries, number `count` of the block's and `tile` of all in memory.
  __device__ __forceinline__ void step(const Task& t, const Scores<T>& scores, int query, u32 warp, int count, int tile,
                                       Result& dk, Result& dv) const {
    const Stage stage = this->stage_of(count);
    const u32 group = warp / 4, number = numbers + stage.index * kNumberBytes;
    const u32 room = slopes_room + stage.index * kSlopeBytes;  // two, so that no one waits for the last one's readers
    ScoreTile s, by;
    Shares shares, slopes;
    Sums sums;
    const int there = t.queries.count - query;
    queries.wait(stage);
    this->template clear<kQueries>(queries.at(stage), there);
    wgmma_fence();
    this->by_queries(s, k_room, group, queries.at(stage));
    douts.wait(stage);
    this->template clear<kQueries>(douts.at(stage), there);
    wgmma_fence();
    this->by_queries(by, v_room, group, douts.at(stage));
    wgmma_wait<1>();
    wgmma_done(s);
    this->probabilities(s, scores, t.first + static_cast<int>(warp * 16), query, number);
    this->pack(shares, s);
    this->pin(shares);
    wgmma_wait<0>();
    wgmma_done(by);
    this->template differentiate<false>(by, s, shares, number + kQueries * 4);
    this->pack(slopes, by);
    put_slopes(slopes, warp, room);
    wgmma_fence();
    this->gather(dv, shares, douts.at(stage));
    if (threadIdx.x % 128 == 0) bulk_wait_read<0>();
    barrier_of(1, Base::kComputing);
    wgmma_fence();
    by_keys(sums, group, room);
    this->gather(dk, slopes, queries.at(stage));
    wgmma_wait<1>();
    wgmma_done(dv);
    wgmma_done(sums);
    this->keep(shares);
    douts.template leave<1>(stage);
    send_sums(sums, group, tile);
    wgmma_wait<0>();
    wgmma_done(dk);
    this->keep(slopes);
    __syncwarp();  // all lanes have read the stage's numbers
    queries.template leave<1>(stage);
  }

  __device__ __forceinline__ void consume(const Task& t) const {
    const u32 warp = same_in_warp(threadIdx.x / 32) - 4;
    const Scores<T> scores(p.score, t.batch, 0, t.queries.count, t.keys.count);
    Result dk, dv;
#pragma unroll
    for (u32 i = 0; i < kD / 2; ++i) dk[i] = 0.0f, dv[i] = 0.0f;
    const int all = this->steps(t);
    if (all > 0) this->wait_for_keys(t);
    int query = t.begin, tile = this->first_tile(t);
#pragma unroll 1
    for (int count = 0; count < all; ++count) {
      step(t, scores, query, warp, count, tile, dk, dv);
      this->advance(t, query, tile);
    }
    if (threadIdx.x % 128 == 0) bulk_wait_read<0>();
    barrier_of(1, Base::kComputing);  // nobody multiplies by these keys any more
    this->put(dv, 1.0f, v_room, warp * 16, 0, p.dv, t, p.sizes.d_v);
    this->put(dk, p.score.scale, k_room, warp * 16, 0, p.dk, t, p.sizes.d);
  }

  __device__ __forceinline__ void run() const {
    const Task t = this->task();
    if (t.first >= t.keys.count) return;
    if (threadIdx.x == 0) this->init();
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
