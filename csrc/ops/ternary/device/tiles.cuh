// SPDX-License-Identifier: MIT
// y = x * weight^T by warps, on any GPU with products of 8-bit integers: a tile is 128 rows of the weight, 32 a warp,
// and 128 of x. A warp decodes its blocks in registers, as left matrices; x comes to stages of shared memory by
// cp.async.
#pragma once

#include "device/ptx/async.cuh"
#include "device/ptx/matrix.cuh"
#include "device/scheduler.cuh"
#include "ops/ternary/device/decode.cuh"
#include "ops/ternary/device/few.cuh"

#if defined(KW_HAS_INT8_MMA) && defined(KW_HAS_CP_ASYNC)

namespace kw {

struct TernaryTiles {
  static constexpr u32 kColumns = KW_TERNARY_TILE_COLUMNS, kStages = KW_TERNARY_TILE_STAGES;
  static constexpr u32 kThreads = KW_TERNARY_TILE_WARPS * 32, kStageBytes = kColumns * 128;
  static constexpr u32 kGroups = 2;  // of 16 rows, a warp's
  using Sums = int[kGroups][kColumns / 2];
  const KwMatmulTernaryTileParams& p;
  u32 first_group, first_x, stages;

  __device__ __forceinline__ explicit TernaryTiles(const KwMatmulTernaryTileParams& p) : p(p) {
    const TileScheduler tiles = {p.rows, p.columns, p.group};
    const Tile tile = tiles.at(blockIdx.x);
    first_group = tile.row * (KW_TERNARY_TILE_ROWS / KW_TERNARY_ROWS) + threadIdx.x / 32 * kGroups;
    first_x = tile.column * kColumns;
    stages = shared_address(ternary_shared());
  }

  // 16 bytes of x that begin anywhere.
  __device__ __forceinline__ void copy_bytes(u32 to, const char* from, u32 bytes) const {
    u32 word[4] = {};
#pragma unroll
    for (u32 i = 0; i < 16; ++i) {
      u32 byte[1];
      if (i >= bytes) continue;
      load<1>(from + i, byte);
      word[i / 4] |= byte[0] << (i % 4 * 8);
    }
    store_shared<16>(to, word);
  }

  // 128 of k of all of the tile's rows of x; a row's eight pieces are exchanged so that no two rows meet in a bank.
  __device__ __forceinline__ void fetch(u32 block) const {
    if (block < p.blocks) {
      const u32 stage = stages + block % kStages * kStageBytes;
#pragma unroll 1
      for (u32 i = threadIdx.x; i < kColumns * 8; i += kThreads) {
        const u32 row = i / 8, piece = i % 8, k = block * KW_TERNARY_DEPTH + piece * 16;
        const u32 to = stage + row * 128 + (piece ^ row % 8) * 16;
        const u32 left = k < p.k && first_x + row < p.end.m ? p.k - k : 0;
        const char* const from = left > 0 ? p.x + (first_x + row) * p.x_pitch + k : p.x;
        if (p.vectors != 0) {
          copy_async(to, from, left < 16 ? left : 16);
        } else {
          copy_bytes(to, from, left < 16 ? left : 16);
        }
      }
    }
    copies_commit();
  }

  __device__ __forceinline__ void read(u32 block, u32 (&word)[kGroups][4]) const {
#pragma unroll
    for (u32 i = 0; i < kGroups; ++i) {
      const u32 group = first_group + i;
      if (group >= p.groups || block >= p.blocks) continue;
      load<16>(p.packed + (u64{group} * p.blocks + block) * KW_TERNARY_BLOCK + threadIdx.x % 32 * 16, word[i]);
    }
  }

  __device__ __forceinline__ void multiply(Sums& d, const u32 (&word)[kGroups][4], u32 block) const {
    const u32 stage = stages + block % kStages * kStageBytes, lane = threadIdx.x % 32;
    const u32 row = lane % 8 + lane / 16 * 8, piece = lane / 8 % 2;
#pragma unroll 1
    for (u32 step = 0; step < KW_TERNARY_STEPS; ++step) {
      u32 a[kGroups][4];
#pragma unroll
      for (u32 i = 0; i < kGroups; ++i) ternary_decode(word[i], step, a[i]);
      const u32 from = stage + row * 128 + ((step * 2 + piece) ^ row % 8) * 16;
#pragma unroll
      for (u32 pair = 0; pair < kColumns / 16; ++pair) {
        u32 b[4];
        load_matrices(from + pair * (16 * 128), b);
#pragma unroll
        for (u32 i = 0; i < kGroups; ++i) {
          multiply_int8(reinterpret_cast<int (&)[4]>(d[i][pair * 8]), a[i], b[0], b[1]);
          multiply_int8(reinterpret_cast<int (&)[4]>(d[i][pair * 8 + 4]), a[i], b[2], b[3]);
        }
      }
    }
  }

  __device__ __forceinline__ void run() const {
    allow_next_kernel();
    Sums d;
#pragma unroll
    for (u32 i = 0; i < kGroups * (kColumns / 2); ++i) d[i / (kColumns / 2)][i % (kColumns / 2)] = 0;
    u32 word[kGroups][4] = {}, next[kGroups][4] = {};
    wait_for_previous_kernel();
    read(0, word);
#pragma unroll
    for (u32 i = 0; i + 1 < kStages; ++i) fetch(i);
#pragma unroll 1
    for (u32 block = 0; block < p.blocks; ++block) {
      read(block + 1, next);
      copies_wait<kStages - 2>();
      __syncthreads();  // all copies of the stage have come, and all have read the one that is fetched now
      fetch(block + kStages - 1);
      multiply(d, word, block);
#pragma unroll
      for (u32 i = 0; i < kGroups * 4; ++i) word[i / 4][i % 4] = next[i / 4][i % 4];
    }
    __syncthreads();
    const TernaryEpilogue end = {p.end, stages + threadIdx.x / 32 * KW_TERNARY_SLICE_BYTES};
    end.run(d, first_x, first_group * KW_TERNARY_ROWS, KW_TERNARY_ROWS);
  }
};

}  // namespace kw

#endif
