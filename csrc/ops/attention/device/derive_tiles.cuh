// SPDX-License-Identifier: MIT
// Around the derivatives by warpgroups: what is known of each query before them, and after them from sums to dq.
#pragma once

#include "device/reduce.cuh"
#include "ops/attention/derive_geometry.h"
#include "ops/attention/derive_params.h"
#include "ops/attention/device/deltas.cuh"
#include "ops/attention/device/rows.cuh"
#include "ops/attention/device/softmax.cuh"
#include "ops/attention/device/tile_coordinates.cuh"

namespace kw {

#ifdef KW_HAS_WGMMA

// Which tile of queries is in scratch memory where.
template <u32 kD>
struct DeriveTiles {
  static constexpr int kQueries = KW_ATTENTION_DERIVE_QUERIES(kD);
  static constexpr u32 kNumbers = KW_ATTENTION_DERIVE_NUMBERS(kD), kSums = KW_ATTENTION_DERIVE_SUMS(kD);

  static __device__ __forceinline__ i64 index(const KwAttentionDeriveParams& p, int batch, int head, int tile) {
    if (p.sizes.starts_q == nullptr) return (i64{batch} * p.sizes.heads + head) * p.tiles + tile;
    return i64{head} * p.all_tiles + p.sizes.starts_q[batch] / kQueries + batch + tile;
  }
};

// A block's tile of queries, where there is one.
template <u32 kD>
struct DeriveTile {
  int first, head, batch;
  Sequence queries;
  i64 index;

  __device__ __forceinline__ explicit DeriveTile(const KwAttentionDeriveParams& p) {
    const u32 of = blockIdx.x / p.tiles;
    const int tile = static_cast<int>(blockIdx.x % p.tiles);
    head = static_cast<int>(of % p.sizes.heads), batch = static_cast<int>(of / p.sizes.heads);
    queries = sequence_of(p.sizes.starts_q, batch, p.sizes.queries);
    first = tile * DeriveTiles<kD>::kQueries;
    index = DeriveTiles<kD>::index(p, batch, head, tile);
  }
};

// The logarithm of each row's sum, in units of 2, and the sum of its result times that one's derivative; sums of dq
// begin at 0. Of rows that are not there, or see nothing, the logarithm is infinite. 16 lanes
// have a row, or 32.
template <class T, u32 kD>
__device__ __forceinline__ void attention_prepare(const KwAttentionDeriveParams& p) {
  constexpr float kLog2E = 1.4426950408889634f;
  constexpr u32 kThreads = KW_ATTENTION_PREPARE_THREADS, kQueries = DeriveTiles<kD>::kQueries;
  const DeriveTile<kD> t(p);
  if (t.first >= t.queries.count) return;
  float* const numbers = p.numbers + t.index * (kQueries * 2);
  char* const sums = reinterpret_cast<char*>(p.sums) + t.index * DeriveTiles<kD>::kSums;
  const u32 zero[4] = {};
#pragma unroll 4
  for (u32 i = threadIdx.x; i < DeriveTiles<kD>::kSums / 16; i += kThreads) store_to_read(sums + i * 16, zero);
  constexpr u32 kLanes = kD > KW_ATTENTION_MIDDLE ? 32 : 16;
  const u32 lane = threadIdx.x % kLanes;
#pragma unroll 4
  for (u32 row = threadIdx.x / kLanes; row < kQueries; row += kThreads / kLanes) {
    const int query = t.first + static_cast<int>(row);
    const bool there = query < t.queries.count;
    float sum = 0.0f;
    if (there)
      sum = delta_part<T>(head_of(p.out, t.batch, t.head, t.queries.first + query),
                          head_of(p.dout, t.batch, t.head, t.queries.first + query), static_cast<int>(lane * 8),
                          p.sizes.d_v);
#pragma unroll
    for (u32 mask = kLanes / 2; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
    if (lane != 0) continue;
    float log = -minus_infinity();
    if (there) {
      const float lse = p.lse[t.batch * p.sizes.lse_batch + t.head * p.sizes.lse_head + t.queries.first + query];
      log = lse == minus_infinity() ? -lse : lse * kLog2E;
      if (p.delta != nullptr) p.delta[t.batch * p.delta_batch + t.head * p.delta_head + t.queries.first + query] = sum;
    }
    numbers[row] = log, numbers[kQueries + row] = sum;
  }
}

// Sums, as products by warpgroups left them in registers (derive_block.cuh), to rows of dq: a warp has 16 rows of 64 or
// 128 columns.
template <class T, u32 kD>
__device__ __forceinline__ void attention_collect(const KwAttentionDeriveParams& p) {
  constexpr u32 kWide = DeriveTiles<kD>::kSums / 2 / (64 * 4);
  const DeriveTile<kD> t(p);
  if (t.first >= t.queries.count) return;
  const u32 half = threadIdx.x / 128, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const char* const sums = reinterpret_cast<const char*>(p.sums) + t.index * DeriveTiles<kD>::kSums +
                           half * (DeriveTiles<kD>::kSums / 2) + threadIdx.x % 128 * 16;
  const u32 room = shared_address(attention_shared()) + warp * (kWide * 32);
#pragma unroll
  for (u32 n = 0; n < kWide / 8; ++n) {
    u32 word[4];
    load<16>(sums + n * (128 * 16), word);
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
      const u32 pair[1] = {
          T::pack(float_of_bits(word[i * 2]) * p.score.scale, float_of_bits(word[i * 2 + 1]) * p.score.scale)};
      store_shared<4>(chunk_at<kWide / 8>(room, lane / 4 + i * 8, n) + lane % 4 * 4, pair);
    }
  }
  const int row = t.first + static_cast<int>((kD > kWide ? warp % 4 : warp) * 16);
  const int column = kD > kWide ? static_cast<int>(half * kWide) : 0;
  store_rows<T, kWide / 8>(room, head_of(p.dq, t.batch, t.head, t.queries.first + row) + column * 2, p.dq.row,
                           t.queries.count - row, p.sizes.d - column, p.results_in_vectors != 0);
}

#endif

}  // namespace kw
