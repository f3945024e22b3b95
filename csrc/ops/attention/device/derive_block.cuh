// SPDX-License-Identifier: MIT
// What blocks of the derivatives of attention by warpgroups have in common: a tile of keys and values in shared memory,
// stages through which tiles of queries and of their results' derivatives come, and the products of both.
#pragma once

#include "device/pipeline.cuh"
#include "device/ptx/bulk.cuh"
#include "device/ptx/fence.cuh"
#include "device/ptx/hints.cuh"
#include "device/ptx/reduction.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/ptx/wgmma_bf16_registers.cuh"
#include "device/ptx/wgmma_bf16_shared.cuh"
#include "device/ptx/wgmma_f16_registers.cuh"
#include "device/ptx/wgmma_f16_shared.cuh"
#include "ops/attention/device/derive_tiles.cuh"
#include "ops/attention/device/score.cuh"

namespace kw {

#ifdef KW_HAS_WGMMA

template <class T, u32 kD>
struct DeriveBlock {
  static constexpr u32 kKeys = KW_ATTENTION_DERIVE_KEYS(kD), kQueries = KW_ATTENTION_DERIVE_QUERIES(kD);
  static constexpr u32 kColumns = KW_ATTENTION_TMA_COLUMNS(kD), kStages = KW_ATTENTION_DERIVE_STAGES;
  static constexpr u32 kKeyBytes = kColumns * kKeys * 128, kQueryBytes = kColumns * kQueries * 128;
  static constexpr u32 kNumberBytes = KW_ATTENTION_DERIVE_NUMBERS(kD), kSumBytes = KW_ATTENTION_DERIVE_SUMS(kD);
  static constexpr u32 kSlopeBytes = kQueries * kKeys * 2, kComputing = 256;
  static constexpr u64 kLayout = smem_layout(Swizzle::k128, 1024);
  using Queries = Pipeline<kStages, kQueryBytes>;
  using Stage = typename Queries::Stage;
  using ScoreTile = float[kQueries / 2];
  using Shares = u32[kQueries / 4];
  using Result = float[KW_ATTENTION_DERIVE_RESULTS(kD) / 2];

  // What belongs to one tile of keys, and which queries see any of them, in whole tiles.
  struct Task {
    Sequence queries, keys;
    int first, head, batch;  // of keys
    int begin, end;
  };

  const KwAttentionDeriveParams& p;
  Queries queries, douts;
  u32 k_room, v_room, numbers, slopes_room, words, k_full, v_full, slopes_full, end;

  __device__ __forceinline__ explicit DeriveBlock(const KwAttentionDeriveParams& p) : p(p) {
    k_room = (shared_address(attention_shared()) + 1023) & ~1023u;
    v_room = k_room + kKeyBytes;
    queries.stages = v_room + kKeyBytes;
    douts.stages = queries.stages + kStages * kQueryBytes;
    slopes_room = douts.stages + kStages * kQueryBytes;
    numbers = slopes_room + (3 - KW_ATTENTION_DERIVE_APART(kD)) * kSlopeBytes;
    words = numbers + kStages * kNumberBytes;
    queries.barriers = words + kComputing * 4;
    douts.barriers = queries.barriers + Queries::kBarrierBytes;
    k_full = douts.barriers + Queries::kBarrierBytes;
    v_full = k_full + 8;
    slopes_full = v_full + 8;
    end = words + kComputing * 4 + 128;
  }

  __device__ __forceinline__ Task task() const {
    constexpr int kTile = static_cast<int>(kQueries);
    Task t;
    const u32 heads = p.sizes.kv_heads * p.sizes.batch, section = p.section, whole = section * p.key_tiles;
    const u32 first = blockIdx.x / whole * section, inside = blockIdx.x % whole, left = heads - first;
    const u32 width = left < section ? left : section, head = first + inside % width;
    t.first = static_cast<int>(inside / width * kKeys);  // the first are seen by most queries
    t.head = static_cast<int>(head % p.sizes.kv_heads), t.batch = static_cast<int>(head / p.sizes.kv_heads);
    t.queries = sequence_of(p.sizes.starts_q, t.batch, p.sizes.queries);
    t.keys = sequence_of(p.sizes.starts_k, t.batch, p.sizes.keys);
    const Scores<T> scores(p.score, t.batch, 0, t.queries.count, t.keys.count);
    const int end = t.first + static_cast<int>(kKeys), last = (end < t.keys.count ? end : t.keys.count) - 1;
    t.begin = scores.first_query(t.first) / kTile * kTile;
    t.end = scores.end_query(last);
    return t;
  }

  __device__ __forceinline__ int heads_each() const { return p.sizes.heads / p.sizes.kv_heads; }

  // Tiles of queries, of all heads.
  __device__ __forceinline__ int steps(const Task& t) const {
    constexpr int kTile = static_cast<int>(kQueries);
    return t.end > t.begin ? (t.end - t.begin + kTile - 1) / kTile * heads_each() : 0;
  }

  template <u32 kBoxRows>
  __device__ __forceinline__ void copy(u32 to, const KwTensorMap& map, int row, int head, int batch, u32 full) const {
#pragma unroll
    for (u32 i = 0; i < kColumns; ++i) {
      const u32 at[4] = {i * 64, static_cast<u32>(row), static_cast<u32>(head), static_cast<u32>(batch)};
      tma_load(to + i * (kBoxRows * 128), &map, at, full);
    }
  }

  __device__ __forceinline__ void produce(const Task& t) const {
    if (steps(t) == 0) return;
    const int batch = p.sizes.starts_q == nullptr ? t.batch : 0;
    barrier_expect(k_full, kKeyBytes);
    copy<kKeys>(k_room, p.k, t.keys.first + t.first, t.head, batch, k_full);
    barrier_expect(v_full, kKeyBytes);
    copy<kKeys>(v_room, p.v, t.keys.first + t.first, t.head, batch, v_full);
    Stage stage;
#pragma unroll 1
    for (int head = t.head * heads_each(); head < (t.head + 1) * heads_each(); ++head) {
      const char* from = reinterpret_cast<const char*>(p.numbers) +
                         DeriveTiles<kD>::index(p, t.batch, head, t.begin / static_cast<int>(kQueries)) * kNumberBytes;
#pragma unroll 1
      for (int query = t.begin; query < t.end; query += static_cast<int>(kQueries)) {
        queries.acquire(stage, kQueryBytes + kNumberBytes);
        copy<kQueries>(queries.at(stage), p.q, t.queries.first + query, head, batch, queries.full(stage));
        copy_bulk(numbers + stage.index * kNumberBytes, from, kNumberBytes, queries.full(stage));
        from += kNumberBytes;
        douts.acquire(stage, kQueryBytes);
        copy<kQueries>(douts.at(stage), p.dout_boxes, t.queries.first + query, head, batch, douts.full(stage));
        stage.advance();
      }
    }
  }

  template <u32 kCount>
  static __device__ __forceinline__ void product(float (&d)[kCount], u64 a, u64 b, u32 add) {
    if constexpr (T::kIsHalf) {
      wgmma_f16(d, a, b, add);
    } else {
      wgmma_bf16(d, a, b, add);
    }
  }

  // Keys (or values) of a warpgroup by queries (or their results' derivatives).
  __device__ __forceinline__ void by_queries(ScoreTile& s, u32 keys_room, u32 group, u32 from) const {
    const u32 left = smem_matrix(keys_room) + group * (64 * 128 / 16), right = smem_matrix(from);
#pragma unroll
    for (u32 k = 0; k < kD / 16; ++k) {
      product(s, smem_descriptor(kLayout, left + k / 4 * (kKeys * 128 / 16) + k % 4 * 2),
              smem_descriptor(kLayout, right + k / 4 * (kQueries * 128 / 16) + k % 4 * 2), k == 0 ? 0 : 1);
    }
    wgmma_commit();
  }

  // Adds what is in registers times rows of queries (or of their results' derivatives).
  __device__ __forceinline__ void gather(Result& d, const Shares& shares, u32 from) const {
    const u32 right = smem_matrix(from, kQueries * 128);
#pragma unroll
    for (u32 k = 0; k < kQueries / 16; ++k) {
      const u32 a[4] = {shares[k * 4], shares[k * 4 + 1], shares[k * 4 + 2], shares[k * 4 + 3]};
      const u64 b = smem_descriptor(kLayout, right + k * (16 * 128 / 16));
      if constexpr (T::kIsHalf) {
        wgmma_f16<1>(d, a, b, 1);
      } else {
        wgmma_bf16<1>(d, a, b, 1);
      }
    }
    wgmma_commit();
  }

  static __device__ __forceinline__ void pack(Shares& shares, const ScoreTile& s) {
#pragma unroll
    for (u32 i = 0; i < kQueries / 4; ++i) shares[i] = T::pack(s[i * 2], s[i * 2 + 1]);
  }

  // Registers that products read stay what they are until here.
  static __device__ __forceinline__ void keep(Shares& shares) {
#pragma unroll
    for (u32 i = 0; i < kQueries / 4; ++i) shares[i] = computed_here(shares[i]);
  }

  // Of sequences that lie one after the other: behind the last row are the next one's, which may be NaN, and 0 times
  // that is no 0.
  template <u32 kRows>
  __device__ __forceinline__ void clear(u32 room, int there) const {
    if (p.sizes.starts_q == nullptr || there >= static_cast<int>(kRows)) return;
    const u32 zero[4] = {};
#pragma unroll 1
    for (u32 i = threadIdx.x - 128; i < kColumns * kRows * 8; i += kComputing) {
      if (static_cast<int>(i / 8 % kRows) >= there) store_shared(room + i * 16, zero);
    }
    fence_proxy_async();
    barrier_of(4, kComputing);
  }

  // Products become probabilities; `row`: the warp's first key.
  __device__ __forceinline__ void probabilities(ScoreTile& s, const Scores<T>& scores, int row, int query,
                                                u32 logs) const {
    const u32 lane = threadIdx.x % 32;
    if (row + 16 > scores.keys || !scores.sees_all(query, query + static_cast<int>(kQueries) - 1, row, row + 16))
      scores.template hide<true>(s, row + static_cast<int>(lane / 4), query + static_cast<int>(lane % 4 * 2));
#pragma unroll
    for (u32 j = 0; j < kQueries / 8; ++j) {
      u32 log[2];
      load_shared<8>(logs + j * 32 + lane % 4 * 8, log);
#pragma unroll
      for (u32 i = 0; i < 4; ++i)
        s[j * 4 + i] = exp2_approx(fmaf(s[j * 4 + i], scores.multiplier, -float_of_bits(log[i % 2])));
    }
  }

  // By rounded probabilities where registers do not hold the others that long.
  template <bool kRounded>
  __device__ __forceinline__ void differentiate(ScoreTile& by, const ScoreTile& s, const Shares& shares,
                                                u32 deltas) const {
#pragma unroll
    for (u32 j = 0; j < kQueries / 8; ++j) {
      u32 delta[2];
      load_shared<8>(deltas + j * 32 + threadIdx.x % 4 * 8, delta);
#pragma unroll
      for (u32 i = 0; i < 4; ++i) {
        const u32 pair = shares[j * 2 + i / 2];
        const float share = !kRounded ? s[j * 4 + i] : i % 2 == 0 ? T::low(pair) : T::high(pair);
        by[j * 4 + i] = share * (by[j * 4 + i] - float_of_bits(delta[i % 2]));
      }
    }
  }

  // Keeps the next wait behind the exponentials: without a use of them there ptxas has it before.
  __device__ __forceinline__ void pin(const Shares& shares) const {
    u32 word[1] = {shares[0]};
#pragma unroll
    for (u32 i = 1; i < kQueries / 4; ++i) word[0] |= shares[i];
    store_shared<4>(words + (threadIdx.x - 128) * 4, word);
  }

  // The stage that the tile of this number has; they are two.
  static __device__ __forceinline__ Stage stage_of(int number) {
    static_assert(kStages == 2, "the last bits of a number say stage and phase");
    Stage stage;
    stage.index = number & 1, stage.phase = number >> 1 & 1;
    return stage;
  }

  // Sums, as they lie in registers, to those in memory; `tile` of all.
  template <u32 kCount>
  __device__ __forceinline__ void add_sums(const float (&sums)[kCount], u32 group, int tile) const {
    char* const to =
        reinterpret_cast<char*>(p.sums) + i64{tile} * kSumBytes + group * (kSumBytes / 2) + threadIdx.x % 128 * 16;
#pragma unroll
    for (u32 i = 0; i < kCount / 4; ++i)
      add_floats(to + i * (128 * 16), sums[i * 4], sums[i * 4 + 1], sums[i * 4 + 2], sums[i * 4 + 3]);
  }

  // 16 rows from `row` of the tile on, times a number, to memory by way of `room`, where nobody reads them any more.
  __device__ __forceinline__ void put(const Result& of, float by, u32 room, u32 row, u32 column, const KwHeads& to,
                                      const Task& t, int d) const {
    constexpr u32 kWide = KW_ATTENTION_DERIVE_RESULTS(kD);
    const u32 lane = threadIdx.x % 32, mine = room + column / 64 * (kKeys * 128) + row * 128;
    const int first = t.first + static_cast<int>(row);
#pragma unroll
    for (u32 i = 0; i < kWide / 4; ++i) {
      const u32 n = i / 2, half = i % 2;
      const u32 pair[1] = {T::pack(of[n * 4 + half * 2] * by, of[n * 4 + half * 2 + 1] * by)};
      store_shared<4>(mine + n / 8 * (kKeys * 128) + chunk_at<8>(0, lane / 4 + half * 8, n % 8) + lane % 4 * 4, pair);
    }
#pragma unroll 1
    for (u32 i = 0; i < kWide / 64; ++i) {
      const u32 at = column + i * 64;
      store_rows<T, 8>(mine + i * (kKeys * 128), head_of(to, t.batch, t.head, t.keys.first + first) + at * 2, to.row,
                       t.keys.count - first, d - static_cast<int>(at), p.results_in_vectors != 0);
    }
  }

  // A block's rows of keys and values are there.
  __device__ __forceinline__ void wait_for_keys(const Task& t) const {
    const int there = t.keys.count - t.first;
    barrier_wait(k_full, 0);
    clear<kKeys>(k_room, there);
    barrier_wait(v_full, 0);
    clear<kKeys>(v_room, there);
  }

  // The tile of queries after that of these numbers: its first query, and which it is of all in memory.
  __device__ __forceinline__ void advance(const Task& t, int& query, int& tile) const {
    constexpr int kTile = static_cast<int>(kQueries);
    ++tile;
    query += kTile;
    if (query < t.end) return;
    tile += (p.sizes.starts_q == nullptr ? p.tiles : p.all_tiles) - (query - t.begin) / kTile;
    query = t.begin;
  }

  __device__ __forceinline__ int first_tile(const Task& t) const {
    return static_cast<int>(
        DeriveTiles<kD>::index(p, t.batch, t.head * heads_each(), t.begin / static_cast<int>(kQueries)));
  }

  // Barriers, before all threads of the block meet. `warps` write the scores' derivatives of a tile.
  __device__ __forceinline__ void init(u32 warps = 8) const {
    barrier_init(k_full, 1);
    barrier_init(v_full, 1);
    for (u32 i = 0; i < kStages; ++i) barrier_init(slopes_full + i * 8, warps);
    queries.init(kComputing / 32);
    douts.init(kComputing / 32);
  }
};

#endif

}  // namespace kw
