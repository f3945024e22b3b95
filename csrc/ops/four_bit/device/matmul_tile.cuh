// SPDX-License-Identifier: MIT
// The product with a 4-bit weight on tensor cores, for up to kCols rows of x, which are the columns here.
//
// The weight is the left matrix. A byte of two codes is looked up as the pair of their values, rounded to the type of
// x; the sums of 32 products are float32 and are scaled then, so that a scale is never rounded. The order of k within
// a chunk is that in which lanes find codes in memory: a lane's four bytes are eight of k, and x is read alike.
//
// A block goes through tiles of the weight's rows, step by step along k; the next steps are copied meanwhile.
#pragma once

#include "device/element.cuh"
#include "device/ptx/hints.cuh"
#include "device/ptx/matrix.cuh"
#include "device/ptx/sync.cuh"
#include "device/reduce.cuh"
#include "ops/four_bit/device/matmul_copy.cuh"
#include "ops/four_bit/device/scales.cuh"

namespace kw {

template <class T, u32 kCols, u32 kTiles>
struct Tile4bit {
  static constexpr u32 kParts = kCols / 8;
  static constexpr u32 kScales = kTiles * 2;
  static constexpr bool kHeld = kTiles <= 2;  // whether registers have room for the next scales, else L2 has them
  static constexpr int kUnrolled = kCols > 16 ? 1 : 4;  // chunks: where there is much to do in one, one is enough
  const KwMatmul4bitParams& p;
  const Copies4bit<kTiles> copies;
  u32 lane, k_warp, row_warp;
  u32 codes_at;      // of the lane's row of the warp's first 32, in the warp's first chunk
  u32 x_at, column;  // of the lane's part of a chunk; the column it reads it for, of the first eight
  u32 scales_from;   // the lane's chunk in the weight, and
  u32 scales_at;     // of the warp's in shared memory, from the lane's group on
  u32 scales_chunk;  // in its row
  float sum[kTiles][kParts][4];
  Scale4bit
      next[kHeld ? kScales : 1];  // of each eighth row from the lane's group on, of the chunk that is the lane's place

  __device__ __forceinline__ explicit Tile4bit(const KwMatmul4bitParams& p)
      : p(p), copies(p), lane(threadIdx.x % kWarp) {
    const u32 warp = threadIdx.x / kWarp;
    row_warp = warp >> p.k_warps_log2;
    k_warp = warp - (row_warp << p.k_warps_log2);
    const u32 chunk = k_warp * kWarpChunks;
    codes_at = kept(chunk * copies.rows * 16 + (((row_warp * (16 * kTiles) + lane) ^ (chunk & 7u)) * 16));
    column = lane / 4;
    if (kParts == 1 && column >= copies.m) column = copies.m - 1;
    x_at = kept(copies.codes_bytes + chunk * 64 + lane % 4 * 16 + column * copies.x_pitch);
    scales_at = copies.scales + warp * (kTiles * 256) + lane / 4 * 4;
    scales_chunk = chunk + lane % 4;
    scales_from = kept((row_warp * (16 * kTiles) + lane / 4) * p.row_chunks + scales_chunk);
  }

  // Where registers are few it is worked out again.
  static __device__ __forceinline__ u32 kept(u32 value) { return kTiles > 2 ? value : computed_once(value); }

  // Calls use(i, block) for each of the lane's scales.
  template <class Use>
  __device__ __forceinline__ void each_scale(const Cursor4bit& at, Use use) const {
    const int shift = p.scales.block_log2 - kChunkLog2;
    u32 chunk = copies.chunk_of(at) + scales_from;
#pragma unroll
    for (u32 i = 0; i < kScales; ++i, chunk += p.row_chunks * 8) use(i, copies.within(chunk) >> shift);
  }

  __device__ __forceinline__ void fetch_scales(const Cursor4bit& at) {
    each_scale(at, [&](u32 i, u32 block) {
      if constexpr (kHeld) {
        next[i].fetch(p.scales, block);
      } else {
        next[0].prefetch(p.scales, block);
      }
    });
  }

  // Past the end of k x is 0, but 0 times a scale that is not a number would not be.
  __device__ __forceinline__ void take_scales(const Cursor4bit& at) {
    const bool inside = (at.step << copies.chunks_log2) + scales_chunk < p.row_chunks;
    const u32 to = scales_at + lane % 4 * (kTiles * 64);
    __syncwarp();
    each_scale(at, [&](u32 i, u32 block) {
      Scale4bit& scale = next[kHeld ? i : 0];
      if constexpr (!kHeld) scale.fetch(p.scales, block);
      const float found = scale.get(p.scales, block) * p.by;
      const u32 word[1] = {inside ? bits_of_float(found) : 0u};
      store_shared<4>(to + i * 32, word);
    });
    __syncwarp();
  }

  // The left matrices of a chunk: of each 16 rows two, which a lane's first and last two bytes are for.
  __device__ __forceinline__ void load_left(u32 codes_of_lane, u32 (&left)[kTiles][2][4]) const {
#pragma unroll
    for (u32 i = 0; i < kTiles; i += 2) {
      u32 codes[4];
      load_matrices(codes_of_lane + i * 256, codes);
#pragma unroll
      for (u32 j = 0; j < 16; ++j) {
        left[i + j / 8][j / 4 % 2][j % 4] = pair_of(codes[j / 8 * 2 + j % 2], j / 2 % 4);
      }
    }
  }

  __device__ __forceinline__ void add_chunk(u32 codes_of_lane, u32 x, const float (&by)[kScales]) {
    u32 left[kTiles][2][4];
    load_left(codes_of_lane, left);
#pragma unroll
    for (u32 part = 0; part < kParts; ++part) {
      u32 right[4];
      if constexpr (kParts == 1) {
        load_shared<16>(x, right);
      } else {
        if (part * 8 >= copies.m) break;
        const u32 wanted = part * 8 + column, last = copies.m - 1;
        load_shared<16>(x + ((wanted < last ? wanted : last) - column) * copies.x_pitch, right);
      }
#pragma unroll
      for (u32 i = 0; i < kTiles; ++i) {
        float c[4] = {};
        multiply_pairs<T>(c, left[i][0], right[0], right[1]);
        multiply_pairs<T>(c, left[i][1], right[2], right[3]);
#pragma unroll
        for (u32 j = 0; j < 4; ++j) sum[i][part][j] = fmaf(c[j], by[i * 2 + j / 2], sum[i][part][j]);
      }
    }
  }

  // Works on what the warp has of a step.
  __device__ __forceinline__ void add_step(u32 slot) {
    const u32 stage = copies.stage(slot);
#pragma unroll kUnrolled
    for (u32 c = 0; c < kWarpChunks; ++c) {
      float by[kScales];
#pragma unroll
      for (u32 i = 0; i < kScales; ++i) {
        u32 word[1];
        load_shared<4>(scales_at + c * (kTiles * 64) + i * 32, word);
        by[i] = float_of_bits(word[0]);
      }
      add_chunk(stage + c * copies.rows * 16 + (codes_at ^ (c * 16)), stage + x_at + c * 64, by);
    }
  }

  __device__ __forceinline__ void clear_sums() {
#pragma unroll
    for (u32 i = 0; i < kTiles * kParts * 4; ++i) sum[i / (kParts * 4)][i / 4 % kParts][i % 4] = 0.0f;
  }

  // Adds what the warps along k have of eight columns, always in the same order, and the bias.
  __device__ __forceinline__ void store_columns(u32 tile, u32 first) const {
    const u32 pitch = (copies.rows + kSumsPadding) * 4, of_warp = kSumsCols * pitch;
    const u32 left = copies.m - first, cols = left < kSumsCols ? left : kSumsCols;
    for (u32 i = threadIdx.x; i < cols * copies.rows; i += blockDim.x) {
      const u32 col = i / copies.rows, row = i - col * copies.rows;
      const i64 n = static_cast<i64>(tile) * copies.rows + row;
      if (n >= p.n) continue;
      float total[1] = {0.0f};
      for (u32 warp = 0; warp < 1u << p.k_warps_log2; ++warp) {
        u32 word[1];
        load_shared<4>(copies.sums + warp * of_warp + col * pitch + row * 4, word);
        total[0] += float_of_bits(word[0]);
      }
      if (p.bias != nullptr) total[0] += load_element<T>(p.bias + n * 2);
      Unit<T, 2> unit;
      unit.pack(total);
      store<2>(p.y + (first + col) * p.y_pitch + n * 2, unit.word);
    }
  }

  __device__ __forceinline__ void finish(u32 tile) const {
    const u32 pitch = (copies.rows + kSumsPadding) * 4;
    const u32 to =
        copies.sums + (k_warp * kSumsCols + lane % 4 * 2) * pitch + (row_warp * (16 * kTiles) + lane / 4) * 4;
#pragma unroll
    for (u32 part = 0; part < kParts; ++part) {
      if (part * 8 < copies.m) {
        if (part > 0) __syncthreads();
#pragma unroll
        for (u32 i = 0; i < kTiles * 4; ++i) {
          const u32 word[1] = {bits_of_float(sum[i / 4][part][i % 4])};
          store_shared<4>(to + i % 2 * pitch + i / 2 * 32, word);
        }
        __syncthreads();
        store_columns(tile, part * 8);
      }
    }
  }

  __device__ __forceinline__ void run() {
    fill_pairs<T>(p);
    allow_next_kernel();
    wait_for_previous_kernel();
    Cursor4bit now{blockIdx.x, 0}, ahead = now;
    u32 slot = 0;
    for (u32 i = 0; i + 1 < p.stages; ++i, ahead.advance(p)) copies.copy(ahead, i);
    fetch_scales(now);
    clear_sums();
    while (now.tile < p.tiles) {
      copies.wait();
      copies.copy(ahead, slot == 0 ? p.stages - 1 : slot - 1);
      ahead.advance(p);
      take_scales(now);
      Cursor4bit after = now;
      after.advance(p);
      fetch_scales(after);
      add_step(slot);
      if (after.step == 0) {
        finish(now.tile);
        clear_sums();
      }
      now = after;
      slot = slot + 1 < p.stages ? slot + 1 : 0;
    }
  }
};

}  // namespace kw
