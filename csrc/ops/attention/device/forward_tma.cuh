// SPDX-License-Identifier: MIT
// Attention by warpgroups: one copies boxes of queries, keys and values to shared memory; two have 64 queries each.
// While a warpgroup's softmax of one tile of keys runs, the products of the tile before with its values do.
#pragma once

#include "device/pipeline.cuh"
#include "device/ptx/bulk.cuh"
#include "device/ptx/fence.cuh"
#include "device/ptx/hints.cuh"
#include "device/ptx/registers.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/ptx/wgmma_bf16_registers.cuh"
#include "device/ptx/wgmma_bf16_shared.cuh"
#include "device/ptx/wgmma_f16_registers.cuh"
#include "device/ptx/wgmma_f16_shared.cuh"
#include "ops/attention/device/tma_tiles.cuh"
#include "ops/attention/geometry.h"

namespace kw {

#ifdef KW_HAS_WGMMA

template <class T, u32 kD, u32 kDv>
struct AttendTma {
  static constexpr u32 kGroups = KW_ATTENTION_TMA_GROUPS(kD), kComputing = 128 * kGroups;
  static constexpr u32 kRows = KW_ATTENTION_TMA_ROWS(kD), kKeys = KW_ATTENTION_TMA_KEYS(kD);
  static constexpr u32 kColumns = KW_ATTENTION_TMA_COLUMNS(kD), kColumnsV = KW_ATTENTION_TMA_COLUMNS(kDv);
  static constexpr u32 kQBytes = kColumns * kRows * 128, kKBytes = kColumns * kKeys * 128;
  static constexpr u32 kVBytes = kColumnsV * kKeys * 128, kWarps = 4 * kGroups, kBox = 64;
  static constexpr int kRaised = 0;
  static constexpr bool kApart = KW_ATTENTION_TMA_APART(kD) != 0;
  static constexpr u64 kLayout = smem_layout(Swizzle::k128, 1024);
  using Keys = Pipeline<KW_ATTENTION_TMA_STAGES, kKBytes>;
  using Values = Pipeline<KW_ATTENTION_TMA_STAGES, kVBytes>;

  using Task = TmaTask<kRows>;
  using ScoreTile = float[kKeys / 2];
  using Shares = u32[kKeys / 4];
  using Result = float[kDv / 2];

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

  __device__ __forceinline__ Task task(u32 index) const { return tma_task<T, kRows, kKeys>(p, index); }

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

  __device__ __forceinline__ const Values& gathered() const { return values; }

  static __device__ __forceinline__ void scale(ScoreTile&) {}

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
        tma_attend(*this, t, scores, group, t.first_row() + static_cast<int>(warp * 16), o, state, key, value, turn);
        if (!kApart) barrier_of(1 + group, 128);  // no warp of the four multiplies by queries any more
      }
      tma_finish<kRows, kDv, 0>(o, state, p, t, scores.multiplier, 1.0f, warp * 16, out_room + warp * (16 * 128),
                                [](float low, float high) { return T::pack(low, high); });
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
      if (threadIdx.x < 32 && one_lane()) tma_produce(*this);
    } else {
      take_registers<kGroups == 2 ? 240 : 160>();
      consume();
    }
  }
};

#endif

}  // namespace kw
