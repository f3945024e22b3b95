// SPDX-License-Identifier: MIT
// Products of rows of x with the weights of experts, whose rows of x lie one after another. A launch has room for as
// many groups of rows as there can be; which rows of which expert a group has is found here, from where the experts'
// rows end, so that the host need not know. Rows that are no expert's become 0: they are those of one expert more.
#pragma once

#include "ops/four_bit/device/matmul_any.cuh"
#include "ops/four_bit/device/matmul_tile.cuh"
#include "ops/four_bit/grouped_params.h"

namespace kw {

__device__ __forceinline__ u32 shuffle_word_from(u32 value, u32 lane) {
  u32 other;
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(other) : "r"(value), "r"(lane));
  return other;
}

struct Group4bit {
  u32 expert, first, rows;  // of x, from the first on; no rows: there are fewer groups than there might be
};

// The largest of what the lanes up to this one have, or the sum of it.
template <class Combine>
__device__ __forceinline__ u32 scan_lanes(u32 value, Combine combine) {
  const u32 lane = threadIdx.x % kWarp;
#pragma unroll
  for (u32 step = 1; step < kWarp; step *= 2) {
    const u32 other = shuffle_word_from(value, (lane - step) % kWarp);
    if (lane >= step) value = combine(value, other);
  }
  return value;
}

// Where an expert's rows end, from 0 to m.
__device__ __forceinline__ u32 end_of(const KwMatmul4bitGroupedParams& p, u32 expert) {
  const u32 m = static_cast<u32>(p.all.m);
  u32 word[1] = {m};
  if (expert < p.experts) load<4>(p.ends + static_cast<u64>(expert) * 4, word);
  const int end = static_cast<int>(word[0]);
  return end < 0 ? 0 : static_cast<u32>(end) < m ? static_cast<u32>(end) : m;
}

// The same for all lanes of a warp, each of which looks at one expert of 32.
__device__ __forceinline__ Group4bit group_of(const KwMatmul4bitGroupedParams& p, u32 group) {
  const u32 lane = threadIdx.x % kWarp, most = (1u << p.rows_log2) - 1;
  u32 before = 0;
  for (u32 base = 0; base <= p.experts; base += kWarp) {
    u32 end = end_of(p, base + lane);
    end = scan_lanes(end > before ? end : before, [](u32 a, u32 b) { return a > b ? a : b; });
    const u32 last = shuffle_up(end), begin = lane > 0 ? last : before;
    const u32 groups = (end - begin + most) >> p.rows_log2;
    const u32 sum = scan_lanes(groups, [](u32 a, u32 b) { return a + b; });
    const u32 all = shuffle_word_from(sum, kWarp - 1);
    if (group < all) {
      const auto which = static_cast<u32>(warp_sum(sum <= group ? 1.0f : 0.0f));
      const u32 skipped = group - (shuffle_word_from(sum, which) - shuffle_word_from(groups, which));
      const u32 first = shuffle_word_from(begin, which) + (skipped << p.rows_log2);
      const u32 left = shuffle_word_from(end, which) - first;
      return {base + which, first, left <= most ? left : most + 1};
    }
    group -= all;
    before = shuffle_word_from(end, kWarp - 1);
  }
  return {0, 0, 0};
}

// A warp has one row of the weight and a group's rows of x.
template <class T>
__device__ __forceinline__ void matmul_4bit_grouped_any(const KwMatmul4bitGroupedParams& p) {
  const float value = p.all.values[threadIdx.x % 16];
  allow_next_kernel();
  wait_for_previous_kernel();
  const i64 warp = static_cast<i64>(blockIdx.x) * (kAnyThreads / kWarp) + threadIdx.x / kWarp;
  const i64 row = warp % p.all.n;
  if (warp / p.all.n >= p.groups) return;
  const Group4bit group = group_of(p, static_cast<u32>(warp / p.all.n));
  float sum[kAnyRows] = {};
  if (group.expert < p.experts && group.rows > 0) {
    add_products<T>(p.all, group.expert * p.all.n + row, p.all.x + group.first * p.all.x_pitch, group.rows, value, sum);
  }
#pragma unroll
  for (u32 i = 0; i < kAnyRows; ++i) {
    const float total[1] = {warp_sum(sum[i])};
    if (i >= group.rows || threadIdx.x % kWarp != 0) continue;
    Unit<T, T::kSize> unit;
    unit.pack(total);
    store<T::kSize>(p.all.y + (group.first + i) * p.all.y_pitch + row * T::kSize, unit.word);
  }
}

__device__ __forceinline__ void clear_rows(const KwMatmul4bitGroupedParams& p, const Group4bit& group, u32 tile,
                                           u32 rows) {
  const u32 word[1] = {0};
  for (u32 i = threadIdx.x; i < group.rows * rows; i += blockDim.x) {
    const i64 n = static_cast<i64>(tile) * rows + i % rows;
    if (n < p.all.n) store<2>(p.all.y + (group.first + i / rows) * p.all.y_pitch + n * 2, word);
  }
}

// One tile, step by step along k; the next steps are copied meanwhile, as in Tile4bit::run().
template <class Tile>
__device__ __forceinline__ void add_tile(Tile& t, u32 tile) {
  Cursor4bit ahead{tile, 0};
  for (u32 i = 0; i + 1 < t.p.stages; ++i, ahead.advance(t.p)) t.copies.copy(ahead, i);
  t.fetch_scales({tile, 0});
  t.clear_sums();
  u32 slot = 0;
  for (u32 step = 0; step < t.p.steps; ++step) {
    t.copies.wait();
    t.copies.copy(ahead, slot == 0 ? t.p.stages - 1 : slot - 1);
    ahead.advance(t.p);
    t.take_scales({tile, step});
    if (step + 1 < t.p.steps) t.fetch_scales({tile, step + 1});
    t.add_step(slot);
    slot = slot + 1 < t.p.stages ? slot + 1 : 0;
  }
  t.finish(tile);
}

// A block has one tile of the weight's rows and a group's rows of x; blocks of one tile run side by side.
template <class T, u32 kCols, u32 kTiles>
__device__ __forceinline__ void matmul_4bit_grouped_tile(const KwMatmul4bitGroupedParams& p) {
  fill_pairs<T>(p.all);
  allow_next_kernel();
  wait_for_previous_kernel();
  const u32 tile = blockIdx.x / p.groups;
  const Group4bit group = group_of(p, blockIdx.x - tile * p.groups);
  if (group.rows == 0) return;
  if (group.expert == p.experts) return clear_rows(p, group, tile, p.all.row_warps * (16 * kTiles));
  KwMatmul4bitParams q = p.all;
  const i64 scales = group.expert * p.expert_scales;
  q.m = group.rows;
  q.x += group.first * q.x_pitch;
  q.y += group.first * q.y_pitch;
  q.packed += group.expert * p.expert_bytes;
  if (q.scales.absmax != nullptr) {
    q.scales.absmax += scales * 4;
  } else {
    q.scales.codes += scales;
    q.scales.absmax2 += (scales >> kScalesLog2) * 4;
  }
  Tile4bit<T, kCols, kTiles> of(q);
  add_tile(of, tile);
}

}  // namespace kw
