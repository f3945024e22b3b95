// SPDX-License-Identifier: MIT
// The product with a 4-bit weight on tensor cores, for up to kCols rows of x, which are the columns here.
//
// The weight is the left matrix. A byte of two codes is looked up as the pair of their values, rounded to the type of
// x; the sums of 32 products are float32 and are scaled then, so that a scale is never rounded. The order of k within
// 32 is that in which lanes find codes in memory: a lane's four bytes are eight of k, and x is read alike.
//
// A block goes through tiles of the weight's rows, step by step along k; a step's codes and its part of x are copied
// while the ones before are worked on. In shared memory, one after the other: the table of pairs, one copy for each
// lane so that no two want the same bank; the sums of the warps along k; the stages.
#pragma once

#include "element.cuh"
#include "four_bit_scales.cuh"
#include "ptx_async.cuh"
#include "ptx_matrix.cuh"
#include "ptx_sync.cuh"
#include "reduce.cuh"

namespace kw {

constexpr u32 kPairsBytes = 256 * kWarp * 4;
constexpr u32 kChunk = 32;       // of k: 16 bytes of codes
constexpr u32 kWarpChunks = 4;   // a warp takes at a time
constexpr u32 kXPadding = 64;    // bytes after a row of x: lanes of two groups read different banks
constexpr u32 kSumsPadding = 4;  // floats, to the same end

__device__ __forceinline__ u32 dynamic_shared() {
  extern __shared__ __align__(16) char matmul_4bit_shared[];
  return shared_address(matmul_4bit_shared);
}

// Sizes and places that follow from the parameters; those of a block are the same in all its threads.
template <u32 kTiles>
struct Geometry4bit {
  u32 rows, step, chunks_log2, codes_bytes, x_pitch, stage_bytes, sums, stages;

  __device__ __forceinline__ Geometry4bit(const KwMatmul4bitParams& p, u32 cols) {
    rows = p.row_warps * (16 * kTiles);
    chunks_log2 = 2 + p.k_warps_log2 + p.subs_log2;
    step = kChunk << chunks_log2;
    codes_bytes = rows * (step / 2);
    x_pitch = step * 2 + kXPadding;
    stage_bytes = codes_bytes + static_cast<u32>(p.m) * x_pitch;
    sums = kPairsBytes;
    stages = sums + (p.k_warps_log2 == 0 ? 0 : (cols << p.k_warps_log2) * (rows + kSumsPadding) * 4);
  }
};

// A step of a tile.
struct Cursor4bit {
  u32 tile, step;

  __device__ __forceinline__ void advance(const KwMatmul4bitParams& p) {
    if (++step < p.steps) return;
    step = 0;
    tile += gridDim.x;
  }
};

template <class T, u32 kCols, u32 kTiles>
struct Tile4bit {
  static constexpr u32 kParts = kCols / 8;
  static constexpr int kUnrolled = kCols > 16 ? 1 : 4;  // chunks: where there is much to do in one, one is enough
  const KwMatmul4bitParams& p;
  const Geometry4bit<kTiles> g;
  const u32 m, shared, lane, k_warp, row_warp;
  float offset = 0.0f;
  float sum[kTiles][kParts][4];
  Scale4bit next[kTiles][2];  // of the rows `group` and group + 8 of each 16, of the chunk that is the lane's place

  __device__ __forceinline__ explicit Tile4bit(const KwMatmul4bitParams& p)
      : p(p),
        g(p, kCols),
        m(static_cast<u32>(p.m)),
        shared(dynamic_shared()),
        lane(threadIdx.x % kWarp),
        k_warp(threadIdx.x / kWarp & ((1u << p.k_warps_log2) - 1)),
        row_warp(threadIdx.x / kWarp >> p.k_warps_log2) {}

  // The pair of values of each byte, for each lane.
  __device__ __forceinline__ void fill_pairs() const {
    for (u32 i = threadIdx.x; i < kPairsBytes / 16; i += blockDim.x) {
      const u32 byte = i / (kWarp / 4), pair = T::pack(p.values[byte >> 4], p.values[byte & 15]);
      const u32 word[4] = {pair, pair, pair, pair};
      store_shared<16>(shared + i * 16, word);
    }
  }

  __device__ __forceinline__ i64 row_of_weight(u32 tile, u32 row) const {
    const i64 at = static_cast<i64>(tile) * g.rows + row;
    return at < p.n ? at : p.n - 1;
  }

  // Codes lie by chunks, then by rows, whose lowest three bits are mixed with the chunk's: the 16 bytes that eight
  // threads write, or eight groups read, are in different banks.
  static __device__ __forceinline__ u32 code_place(u32 rows, u32 chunk, u32 row) {
    return (chunk * rows + (row ^ (chunk & 7u))) * 16;
  }

  __device__ __forceinline__ void copy_codes(const Cursor4bit& at, u32 stage) const {
    const u32 chunk = threadIdx.x & ((1u << g.chunks_log2) - 1), rows_apart = blockDim.x >> g.chunks_log2;
    const i64 k = static_cast<i64>(at.step) * g.step + chunk * kChunk;
    const u32 bytes = k < p.k ? 16 : 0;
    const char* from = p.packed + (bytes == 0 ? 0 : k / 2);
    for (u32 row = threadIdx.x >> g.chunks_log2; row < g.rows; row += rows_apart) {
      copy_async(stage + code_place(g.rows, chunk, row), from + row_of_weight(at.tile, row) * (p.k / 2), bytes);
    }
  }

  __device__ __forceinline__ void copy_x(const Cursor4bit& at, u32 stage) const {
    const u32 units_log2 = g.chunks_log2 + 2, units = m << units_log2;
    const i64 first = static_cast<i64>(at.step) * g.step;
    for (u32 i = threadIdx.x; i < units; i += blockDim.x) {
      const u32 row = i >> units_log2, unit = i & ((1u << units_log2) - 1);
      const i64 k = first + unit * 8;
      const u32 bytes = k < p.k ? 16 : 0;
      copy_async(stage + g.codes_bytes + row * g.x_pitch + unit * 16, p.x + (bytes == 0 ? 0 : row * p.x_pitch + k * 2),
                 bytes);
    }
  }

  __device__ __forceinline__ u32 stage_at(u32 slot) const { return shared + g.stages + slot * g.stage_bytes; }

  __device__ __forceinline__ void copy(const Cursor4bit& at, u32 slot) const {
    if (at.tile < p.tiles) {
      copy_codes(at, stage_at(slot));
      copy_x(at, stage_at(slot));
    }
    copies_commit();
  }

  // The warp's first chunk of a step's part.
  __device__ __forceinline__ u32 first_chunk(u32 sub) const { return ((k_warp << p.subs_log2) + sub) * kWarpChunks; }

  __device__ __forceinline__ void fetch_scales(const Cursor4bit& at, u32 sub) {
    const i64 k = static_cast<i64>(at.step) * g.step + (first_chunk(sub) + lane % 4) * kChunk;
    const bool inside = at.tile < p.tiles && k < p.k;
#pragma unroll
    for (u32 i = 0; i < kTiles * 2; ++i) {
      Scale4bit& scale = next[i / 2][i % 2];
      scale.clear();
      if (!inside) continue;
      const i64 row = row_of_weight(at.tile, row_warp * (16 * kTiles) + i * 8 + lane / 4);
      scale.fetch(p.scales, (row * p.k + k) >> p.scales.block_log2);
    }
  }

  // Past the end of k x is 0, but 0 times a scale that is not a number would not be.
  __device__ __forceinline__ void take_scales(const Cursor4bit& at, u32 sub, float (&scale)[kTiles][2]) const {
    const i64 k = static_cast<i64>(at.step) * g.step + (first_chunk(sub) + lane % 4) * kChunk;
#pragma unroll
    for (u32 i = 0; i < kTiles * 2; ++i) {
      scale[i / 2][i % 2] = k < p.k ? next[i / 2][i % 2].get(p.scales, offset) * p.by : 0.0f;
    }
  }

  // The pairs of byte `which` of a lane's codes.
  __device__ __forceinline__ u32 pair_of(u32 codes, u32 which) const {
    const u32 at = which == 0 ? codes << 7 : codes >> (which * 8 - 7);
    u32 pair[1];
    load_shared<4>(shared + lane * 4 + (at & 0x7f80u), pair);
    return pair[0];
  }

  static __device__ __forceinline__ void multiply(float (&c)[4], const u32 (&a)[4], u32 low, u32 high) {
    if constexpr (T::kIsHalf) {
      multiply_half(c, a, low, high);
    } else {
      multiply_bfloat(c, a, low, high);
    }
  }

  __device__ __forceinline__ void add_chunk(u32 stage, u32 chunk, const float (&by)[kTiles][2]) {
    u32 left[kTiles][2][4];
#pragma unroll
    for (u32 i = 0; i < kTiles; i += 2) {
      u32 codes[4];
      load_matrices(stage + code_place(g.rows, chunk, row_warp * (16 * kTiles) + i * 16 + lane), codes);
#pragma unroll
      for (u32 j = 0; j < 16; ++j) {
        left[i + j / 8][j / 4 % 2][j % 4] = pair_of(codes[j / 8 * 2 + j % 2], j / 2 % 4);
      }
    }
    const u32 x = stage + g.codes_bytes + (chunk * kChunk + lane % 4 * 8) * 2;
#pragma unroll
    for (u32 part = 0; part < kParts; ++part) {
      if (part * 8 >= m) break;
      const u32 col = part * 8 + lane / 4, last = m - 1;
      u32 right[4];
      load_shared<16>(x + (col < last ? col : last) * g.x_pitch, right);
#pragma unroll
      for (u32 i = 0; i < kTiles; ++i) {
        float c[4] = {};
        multiply(c, left[i][0], right[0], right[1]);
        multiply(c, left[i][1], right[2], right[3]);
#pragma unroll
        for (u32 j = 0; j < 4; ++j) sum[i][part][j] = fmaf(c[j], by[i][j / 2], sum[i][part][j]);
      }
    }
  }

  // Works on what the warp has of a step, and has the scales of what follows on their way.
  __device__ __forceinline__ void add_step(const Cursor4bit& at, const Cursor4bit& after, u32 slot) {
    const u32 subs = 1u << p.subs_log2;
    for (u32 sub = 0; sub < subs; ++sub) {
      float scale[kTiles][2];
      take_scales(at, sub, scale);
      const bool last = sub + 1 == subs;
      fetch_scales({last ? after.tile : at.tile, last ? after.step : at.step}, last ? 0 : sub + 1);
#pragma unroll kUnrolled
      for (u32 c = 0; c < kWarpChunks; ++c) {
        float by[kTiles][2];
#pragma unroll
        for (u32 i = 0; i < kTiles * 2; ++i) by[i / 2][i % 2] = shuffle_in_group(scale[i / 2][i % 2], c);
        add_chunk(stage_at(slot), first_chunk(sub) + c, by);
      }
    }
  }

  __device__ __forceinline__ void clear_sums() {
#pragma unroll
    for (u32 i = 0; i < kTiles * kParts * 4; ++i) sum[i / (kParts * 4)][i / 4 % kParts][i % 4] = 0.0f;
  }

  __device__ __forceinline__ float bias_of(i64 n) const {
    return p.bias == nullptr || n >= p.n ? 0.0f : load_element<T>(p.bias + n * 2);
  }

  static __device__ __forceinline__ void store_result(char* to, float value) {
    const float result[1] = {value};
    Unit<T, 2> unit;
    unit.pack(result);
    store<2>(to, unit.word);
  }

  // Calls use(row of the tile) for each of the lane's rows, and what that returns with each of its columns and sums.
  template <class Use>
  __device__ __forceinline__ void each_row(Use use) const {
#pragma unroll
    for (u32 i = 0; i < kTiles * 2; ++i) {
      auto use_sum = use((row_warp * kTiles * 2 + i) * 8 + lane / 4);
#pragma unroll
      for (u32 j = 0; j < kParts * 2; ++j) {
        const u32 col = j / 2 * 8 + lane % 4 * 2 + j % 2;
        if (col < m) use_sum(col, sum[i / 2][j / 2][i % 2 * 2 + j % 2]);
      }
    }
  }

  __device__ __forceinline__ void store_own(u32 tile) const {
    each_row([&](u32 row) {
      const i64 n = static_cast<i64>(tile) * g.rows + row;
      const float bias = bias_of(n);
      char* to = p.y + n * 2;
      const i64 pitch = p.y_pitch;
      const bool inside = n < p.n;
      return [=](u32 col, float value) {
        if (inside) store_result(to + col * pitch, value + bias);
      };
    });
  }

  // Adds what the warps along k have, always in the same order.
  __device__ __forceinline__ void store_added(u32 tile) const {
    const u32 pitch = (g.rows + kSumsPadding) * 4, of_warp = kCols * pitch, sums = shared + g.sums;
    each_row([&](u32 row) {
      const u32 to = sums + k_warp * of_warp + row * 4;
      return [=](u32 col, float value) {
        const u32 word[1] = {bits_of_float(value)};
        store_shared<4>(to + col * pitch, word);
      };
    });
    __syncthreads();
    for (u32 i = threadIdx.x; i < m * g.rows; i += blockDim.x) {
      const u32 col = i / g.rows, row = i - col * g.rows;
      const i64 n = static_cast<i64>(tile) * g.rows + row;
      if (n >= p.n) continue;
      float total = 0.0f;
      for (u32 warp = 0; warp < 1u << p.k_warps_log2; ++warp) {
        u32 word[1];
        load_shared<4>(sums + warp * of_warp + col * pitch + row * 4, word);
        total += float_of_bits(word[0]);
      }
      store_result(p.y + col * p.y_pitch + n * 2, total + bias_of(n));
    }
  }

  __device__ __forceinline__ void wait() const {
    if (p.stages == 2) {
      copies_wait<0>();
    } else if (p.stages == 3) {
      copies_wait<1>();
    } else {
      copies_wait<2>();
    }
    __syncthreads();
  }

  __device__ __forceinline__ void run() {
    fill_pairs();
    allow_next_kernel();
    wait_for_previous_kernel();
    offset = scales_offset(p.scales);
    Cursor4bit now{blockIdx.x, 0}, ahead = now;
    u32 slot = 0;
    for (u32 i = 0; i + 1 < p.stages; ++i, ahead.advance(p)) copy(ahead, i);
    fetch_scales(now, 0);
    clear_sums();
    while (now.tile < p.tiles) {
      wait();
      copy(ahead, slot == 0 ? p.stages - 1 : slot - 1);
      ahead.advance(p);
      Cursor4bit after = now;
      after.advance(p);
      add_step(now, after, slot);
      if (after.step == 0) {
        if (p.k_warps_log2 == 0) {
          store_own(now.tile);
        } else {
          store_added(now.tile);
        }
        clear_sums();
      }
      now = after;
      slot = slot + 1 < p.stages ? slot + 1 : 0;
    }
  }
};

}  // namespace kw
