// SPDX-License-Identifier: MIT
// Attention of few queries: rows are the queries of all heads that share a head of keys, sixteen a block. Each warp
// goes through keys of its own, which no other waits for; what warps found is added up at the end, and what splits of
// the keys found by the next kernel.
#pragma once

#include "device/ptx/logarithm.cuh"
#include "device/ptx/matrix.cuh"
#include "device/ptx/matrix_transposed.cuh"
#include "ops/attention/device/decode_end.cuh"
#include "ops/attention/device/decode_rows.cuh"
#include "ops/attention/device/score.cuh"

namespace kw {

#ifdef KW_HAS_BF16_MMA

// What a lane knows of one of its two rows of scores.
struct DecodeScores {
  int begin, end, position;  // the keys that it sees; its own
  float slope;
};

template <class T, u32 kD>
struct Decode {
  static constexpr u32 kWarps = KW_DECODE_WARPS(kD), kThreads = kWarps * 32, kChunks = kD / 8, kWide = kD / 8;
  static constexpr u32 kStage = KW_DECODE_KEYS * kD * 4, kStages = KW_DECODE_STAGES;
  static constexpr int kStep = kWarps * KW_DECODE_KEYS;
  using Result = float[kWide * 4];

  const KwDecodeParams& p;
  const DecodeCoordinates at;
  u32 room, lane, warp;
  float multiplier, uncapped;
  bool transforms;

  __device__ __forceinline__ explicit Decode(const KwDecodeParams& p)
      : p(p), at(p), room(shared_address(attention_shared())), lane(threadIdx.x % 32), warp(threadIdx.x / 32) {
    constexpr float kLog2E = 1.4426950408889634f;
    transforms = p.score.softcap != 0.0f || p.score.slopes != nullptr || !(p.score.scale > 1e-20f);
    uncapped = p.score.softcap == 0.0f ? 0.0f : 1.0f / p.score.softcap;
    multiplier = transforms ? 1.0f : p.score.scale * kLog2E;
  }

  __device__ __forceinline__ DecodeScores scores_of(int row) const {
    const DecodeRow mine(p, at, row);
    const int position = mine.query + at.keys - p.queries;
    int begin = p.score.window_left < 0 ? 0 : position - p.score.window_left;
    int end = p.score.window_right < 0 ? at.keys : position + p.score.window_right + 1;
    if (!mine.there) end = 0;
    const float slope = p.score.slopes == nullptr
                            ? 0.0f
                            : p.score.slopes[at.batch * p.score.slopes_batch + mine.head * p.score.slopes_head];
    return {begin > at.begin ? begin : at.begin, end < at.end ? end : at.end, position, slope};
  }

  __device__ __forceinline__ float transformed(float v, const DecodeScores& row, int key) const {
    constexpr float kLog2E = 1.4426950408889634f;
    v *= p.score.scale;
    if (p.score.softcap != 0.0f) v = p.score.softcap * tanh_of(v * uncapped);
    const int behind = key - row.position;
    return fmaf(row.slope, -static_cast<float>(behind < 0 ? -behind : behind), v) * kLog2E;
  }

  // The queries, in the registers of each warp.
  __device__ __forceinline__ void load_queries(u32 (&q)[kD / 16][4]) const {
    copy_queries<T, kChunks, kThreads>(p, at, room);
    __syncthreads();
#pragma unroll
    for (u32 k = 0; k < kD / 16; ++k) load_matrices(chunk_at<kChunks>(room, lane % 16, k * 2 + lane / 16), q[k]);
    __syncthreads();
  }

  __device__ __forceinline__ void products(float (&s)[8], const u32 (&q)[kD / 16][4], u32 keys) const {
#pragma unroll
    for (u32 i = 0; i < 8; ++i) s[i] = 0.0f;
#pragma unroll
    for (u32 k = 0; k < kD / 16; ++k) {
      if (static_cast<int>(k * 16) >= p.d) break;
      u32 b[4];
      load_matrices(chunk_at<kChunks>(keys, lane / 16 * 8 + lane % 8, k * 2 + lane / 8 % 2), b);
      multiply_add<T>(reinterpret_cast<float (&)[4]>(s[0]), q[k], b[0], b[1]);
      multiply_add<T>(reinterpret_cast<float (&)[4]>(s[4]), q[k], b[2], b[3]);
    }
  }

  // Scores of one of the lane's rows become powers of 2; its sums so far shrink.
  __device__ __forceinline__ void soften(float (&s)[8], Result& o, RowState& row, const DecodeScores& score, int key,
                                         u32 half) const {
    const float none = float_of_bits(0xff800000u);
    float most = row.most;
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      float& value = s[i / 2 * 4 + half * 2 + i % 2];
      const int column = key + static_cast<int>(i / 2 * 8 + lane % 4 * 2 + i % 2);
      if (transforms) value = transformed(value, score, column);
      if (column < score.begin || column >= score.end) value = none;
      most = fmaxf(most, value);
    }
    most = fmaxf(most, shuffle_xor(most, 1));
    most = fmaxf(most, shuffle_xor(most, 2));
    const float base = most == none ? 0.0f : most * multiplier;
    const float shrink = exp2_approx(fmaf(row.most, multiplier, -base));
    float sum = row.sum * shrink;
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      float& value = s[i / 2 * 4 + half * 2 + i % 2];
      value = exp2_approx(fmaf(value, multiplier, -base));
      sum += value;
    }
    row = {most, sum};
#pragma unroll
    for (u32 i = 0; i < kWide * 2; ++i) o[i / 2 * 4 + half * 2 + i % 2] *= shrink;
  }

  __device__ __forceinline__ void gather(Result& o, const float (&s)[8], u32 values) const {
    const u32 a[4] = {T::pack(s[0], s[1]), T::pack(s[2], s[3]), T::pack(s[4], s[5]), T::pack(s[6], s[7])};
#pragma unroll
    for (u32 n = 0; n < kWide; n += 2) {
      if (static_cast<int>(n * 8) >= p.d_v) break;
      u32 b[4];
      load_matrices_transposed(chunk_at<kChunks>(values, lane % 16, n + lane / 16), b);
      multiply_add<T>(reinterpret_cast<float (&)[4]>(o[n * 4]), a, b[0], b[1]);
      multiply_add<T>(reinterpret_cast<float (&)[4]>(o[n * 4 + 4]), a, b[2], b[3]);
    }
  }

  // A warp's way through its keys.
  __device__ __forceinline__ void walk(const u32 (&q)[kD / 16][4], Result& o, RowState (&row)[2]) const {
    const DecodeScores score[2] = {scores_of(static_cast<int>(lane / 4)), scores_of(static_cast<int>(lane / 4 + 8))};
    const u32 mine = room + warp * kStages * kStage;
    const int first = at.begin + static_cast<int>(warp) * KW_DECODE_KEYS;
    StepCopies<kChunks, kStep> copies(p, at, first);
    u32 stage = 0, free = 0;
    constexpr int kAhead = static_cast<int>(kStages) - 1;  // steps that are only copied at first
#pragma unroll 1
    for (int key = first - kAhead * kStep; key < at.end; key += kStep) {
      if (key >= first) {
        copies_wait<kStages - 2>();
        __syncwarp();  // what all lanes copied is there, and no lane looks at what is copied over
      }
      copies.next(mine + free * kStage);
      if (key < first) {
        ++free;
        continue;
      }
      float s[8];
      products(s, q, mine + stage * kStage);
      soften(s, o, row[0], score[0], key, 0);
      soften(s, o, row[1], score[1], key, 1);
      gather(o, s, mine + stage * kStage + KW_DECODE_KEYS * kChunks * 16);
      free = stage;
      stage = stage + 1 == kStages ? 0 : stage + 1;
    }
    copies_wait<0>();
  }

  // The sink of a row is a score before all others; one lane of four in the first warp of the first split has it.
  __device__ __forceinline__ RowState start(int row) const {
    constexpr float kLog2E = 1.4426950408889634f;
    const float none = float_of_bits(0xff800000u);
    if (p.score.sinks == nullptr || at.split != 0 || warp != 0) return {none, 0.0f};
    const float sink = p.score.sinks[DecodeRow(p, at, row).head];
    return {sink * (kLog2E / multiplier), lane % 4 == 0 && sink != none ? 1.0f : 0.0f};
  }

  __device__ __forceinline__ void run() const {
    Result o;
    RowState row[2] = {start(static_cast<int>(lane / 4)), start(static_cast<int>(lane / 4 + 8))};
#pragma unroll
    for (u32 i = 0; i < kWide * 4; ++i) o[i] = 0.0f;
    u32 q[kD / 16][4];
    load_queries(q);
    if (p.new_rows > 0) {
      append<T>(p, at, kThreads);
      __syncthreads();
    }
    walk(q, o, row);
    DecodeEnd<T, kD>(p, at, room, lane, warp).finish(o, row, multiplier);
  }
};

#endif

}  // namespace kw
