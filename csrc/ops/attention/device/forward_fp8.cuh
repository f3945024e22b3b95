// SPDX-License-Identifier: MIT
// Attention of 8-bit floats (e4m3) by warpgroups: of the first, one warp copies boxes of queries, keys and values to
// shared memory and three turn the values; two have 64 queries each.
#pragma once

#include "device/pipeline.cuh"
#include "device/ptx/bulk.cuh"
#include "device/ptx/fence.cuh"
#include "device/ptx/registers.cuh"
#include "device/ptx/wgmma_e4m3_registers.cuh"
#include "device/ptx/wgmma_e4m3_shared.cuh"
#include "ops/attention/device/fp8_scales.cuh"
#include "ops/attention/device/tma_tiles.cuh"
#include "ops/attention/device/turn_bytes.cuh"
#include "ops/fp8/device/e4m3.cuh"

namespace kw {

#ifdef KW_HAS_WGMMA

template <u32 kD>
struct AttendFp8 {
  static constexpr u32 kGroups = KW_ATTENTION_FP8_GROUPS, kRows = KW_ATTENTION_FP8_ROWS, kKeys = KW_ATTENTION_FP8_KEYS;
  static constexpr u32 kStages = KW_ATTENTION_FP8_STAGES, kWarps = 4 * kGroups, kTurning = 3;
  static constexpr u32 kColumns = 1, kColumnsV = 1, kBox = kD;  // rows lie in one piece
  static constexpr u32 kQBytes = kRows * kD, kKBytes = kKeys * kD, kVBytes = kKeys * kD;
  // Shares of 1 become 2^8, of the 448 that e4m3 has: then only those below 2^-14 lose bits of their own.
  static constexpr int kRaised = 8;
  static constexpr bool kApart = true;
  static constexpr u64 kLayout = smem_layout(kD == 64 ? Swizzle::k64 : Swizzle::k128, 8 * kD);
  static constexpr u64 kTurnedLayout = smem_layout(Swizzle::k128, 1024);
  using Keys = Pipeline<kStages, kKBytes>;
  using Values = Pipeline<kStages, kVBytes>;
  using Task = TmaTask<kRows>;
  using ScoreTile = float[kKeys / 2];
  using Shares = u32[kKeys / 8];
  using Result = float[kD / 2];

  static_assert(kKeys == 128 && (kD == 64 || kD == 128), "a row of keys, and of a head, is one swizzle's");

  const KwAttentionTmaParams& p;
  const KwAttentionFp8TmaParams& more;
  Keys keys;
  Values values, turned;
  u32 q_room, out_room, words, q_full, q_empty, turns;
  float factor;  // of scores, where the softmax does not take it

  __device__ __forceinline__ explicit AttendFp8(const KwAttentionFp8TmaParams& params) : p(params.of), more(params) {
    q_room = (shared_address(attention_shared()) + 1023) & ~1023u;
    keys.stages = q_room + kQBytes;
    values.stages = keys.stages + kStages * kKBytes;
    turned.stages = values.stages + kStages * kVBytes;
    out_room = turned.stages + kStages * kVBytes;
    words = out_room + kRows * kD * 2;
    keys.barriers = words + kGroups * 512;
    values.barriers = keys.barriers + Keys::kBarrierBytes;
    turned.barriers = values.barriers + Values::kBarrierBytes;
    q_full = turned.barriers + Values::kBarrierBytes;
    q_empty = q_full + 8;
    turns = q_empty + 8;
    factor = 1.0f;
  }

  __device__ __forceinline__ Task task(u32 index) const { return tma_task<BFloat16, kRows, kKeys>(p, index); }
  __device__ __forceinline__ const Values& gathered() const { return turned; }
  __device__ __forceinline__ void clear_values(const Task&, int, const typename Values::Stage&) const {}

  __device__ __forceinline__ void score(ScoreTile& s, u32 group, const typename Keys::Stage& stage) const {
    const u32 left = smem_matrix(q_room) + group * (64 * kD / 16), right = smem_matrix(keys.at(stage));
#pragma unroll
    for (u32 k = 0; k < kD / 32; ++k)
      wgmma_e4m3(s, smem_descriptor(kLayout, left + k * 2), smem_descriptor(kLayout, right + k * 2), k == 0 ? 0 : 1);
    wgmma_commit();
  }

  __device__ __forceinline__ void gather(Result& o, const Shares& shares, const typename Values::Stage& stage) const {
    const u32 right = smem_matrix(turned.at(stage));
#pragma unroll
    for (u32 k = 0; k < kKeys / 32; ++k) {
      const u32 a[4] = {shares[k * 4], shares[k * 4 + 1], shares[k * 4 + 2], shares[k * 4 + 3]};
      wgmma_e4m3(o, a, smem_descriptor(kTurnedLayout, right + k * 2), 1);
    }
    wgmma_commit();
  }

  // Of each 16 keys a lane has two of the first eight and two of the others in a row: those lie together.
  static __device__ __forceinline__ void pack(Shares& shares, const ScoreTile& s) {
#pragma unroll
    for (u32 i = 0; i < kKeys / 8; ++i) {
      const u32 at = i / 2 * 8 + i % 2 * 2;
      shares[i] = byte_permute(e4m3_pair(s[at], s[at + 1]), e4m3_pair(s[at + 4], s[at + 5]), 0x5410);
    }
  }

  __device__ __forceinline__ void scale(ScoreTile& s) const {
    if (factor == 1.0f) return;
#pragma unroll
    for (u32 i = 0; i < kKeys / 2; ++i) s[i] *= factor;
  }

  // Three warps: what was copied as rows of keys becomes rows of elements.
  __device__ __forceinline__ void turn() const {
    const u32 warp = same_in_warp(threadIdx.x / 32) - 1;
    typename Values::Stage stage;
#pragma unroll 1
    for (u32 index = blockIdx.x; index < static_cast<u32>(p.count); index += gridDim.x) {
      const Task t = task(index);
      if (t.empty) continue;
#pragma unroll 1
      for (int at = t.begin; at < t.end; at += static_cast<int>(kKeys)) {
        values.wait(stage);
        barrier_wait(turned.empty(stage), stage.phase ^ 1);
        turn_bytes<kKeys, kD>(values.at(stage), turned.at(stage), warp, kTurning);
        fence_proxy_async();
        __syncwarp();
        if (threadIdx.x % 32 == 0) barrier_arrive(turned.full(stage));
        values.template leave<1>(stage);
        stage.advance();
      }
    }
  }

  __device__ __forceinline__ void consume() {
    const u32 warp = same_in_warp(threadIdx.x / 32) - 4, group = warp / 4;
    const bool is_half = more.is_half != 0;
    typename Keys::Stage key;
    typename Values::Stage value;
    u32 parity = 0, turn = group == 0 ? 1 : 0;  // the first has its first turn at once
#pragma unroll 1
    for (u32 index = blockIdx.x; index < static_cast<u32>(p.count); index += gridDim.x) {
      const Task t = task(index);
      if (t.empty) continue;
      Scores<BFloat16> scores(p.score, t.at.batch, t.at.head, t.queries.count, t.keys.count);
      const Fp8Factors by(more.scales, p.sizes, p.score.scale, t.at.batch, t.at.head);
      scores.multiplier = by.multiplier(&factor);
      Result o;
#pragma unroll
      for (u32 i = 0; i < kD / 2; ++i) o[i] = 0.0f;
      const RowState start = row_start(nullptr, t.at.head, scores.multiplier);
      RowState state[2] = {start, start};
      if (t.begin < t.end) {
        barrier_wait(q_full, parity);
        parity ^= 1;
        tma_attend(*this, t, scores, group, t.first_row() + static_cast<int>(warp * 16), o, state, key, value, turn);
      }
      tma_finish<kRows, kD, kRaised>(
          o, state, p, t, scores.multiplier, by.of_values, warp * 16, out_room + warp * (16 * 128),
          [=](float low, float high) { return is_half ? half_pair(low, high) : bfloat_pair(low, high); });
    }
  }

  __device__ __forceinline__ void run() {
    if (threadIdx.x == 0) {
      barrier_init(q_full, 1);
      barrier_init(q_empty, kWarps);
      for (u32 i = 0; i < kGroups; ++i) barrier_init(turns + i * 8, 4);
      keys.init(kWarps);
      values.init(kTurning);
      turned.init(kWarps, kTurning);
    }
    __syncthreads();
    if (threadIdx.x < 128) {
      release_registers<40>();
      if (threadIdx.x >= 32) {
        turn();
      } else if (one_lane()) {
        tma_produce(*this);
      }
    } else {
      take_registers<232>();
      consume();
    }
  }
};

#endif

}  // namespace kw
