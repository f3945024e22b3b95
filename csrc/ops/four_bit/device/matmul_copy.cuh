// SPDX-License-Identifier: MIT
// What a block of matmul_tile.cuh has in shared memory, and how it gets there. One after the other: the table of
// pairs, one copy for each lane so that no two want the same bank; the sums of the warps along k; the stages of the
// pipeline, each with a step's codes and its part of x.
//
// A chunk is 32 of k: 16 bytes of codes, never of two blocks of scales. All chunks of the weight are counted through.
#pragma once

#include "device/ptx/async.cuh"
#include "ops/four_bit/device/matmul_pairs.cuh"
#include "ops/four_bit/geometry.h"

namespace kw {

// A step of a tile.
struct Cursor4bit {
  u32 tile, step;

  __device__ __forceinline__ void advance(const KwMatmul4bitParams& p) {
    if (++step < p.steps) return;
    step = 0;
    tile += gridDim.x;
  }
};

// kTiles: how many times 16 rows a warp has of a tile.
template <u32 kTiles>
struct Copies4bit {
  const KwMatmul4bitParams& p;
  u32 m, rows, chunks_log2;               // of x; of a tile of the weight; a step's of each row
  u32 codes_bytes, x_pitch, stage_bytes;  // of a stage
  u32 sums, scales, stages;               // where they begin
  u32 codes_chunk, codes_from, codes_to;  // of the thread: in its row, in the weight, in a stage

  // Codes lie by chunks, then by rows, whose lowest three bits are mixed with the chunk's: the 16 bytes that eight
  // threads write, or eight groups read, are in different banks.
  __device__ __forceinline__ explicit Copies4bit(const KwMatmul4bitParams& p)
      : p(p), m(static_cast<u32>(p.m)), rows(p.row_warps * (16 * kTiles)), chunks_log2(2 + p.k_warps_log2) {
    codes_bytes = rows << (chunks_log2 + 4);
    x_pitch = (64u << chunks_log2) + kXPadding;
    stage_bytes = codes_bytes + m * x_pitch;
    sums = shared_address(dynamic_shared()) + kPairsBytes;
    scales = sums + ((rows + kSumsPadding) * (kSumsCols * 4) << p.k_warps_log2);
    stages = scales + blockDim.x / 32 * (kTiles * 256);
    const u32 chunk = threadIdx.x & ((1u << chunks_log2) - 1), row = threadIdx.x >> chunks_log2;
    codes_chunk = chunk;
    codes_from = row * p.row_chunks + chunk;
    codes_to = (chunk * rows + (row ^ (chunk & 7u))) * 16;
  }

  __device__ __forceinline__ u32 stage(u32 slot) const { return stages + slot * stage_bytes; }

  // The first chunk of a tile's part of a step. Past the last row there is nothing to read: use within().
  __device__ __forceinline__ u32 chunk_of(const Cursor4bit& at) const {
    return at.tile * rows * p.row_chunks + (at.step << chunks_log2);
  }

  __device__ __forceinline__ u32 within(u32 chunk) const { return chunk < p.last_chunk ? chunk : p.last_chunk; }

  __device__ __forceinline__ void copy_codes(const Cursor4bit& at, u32 to) const {
    const u32 rows_apart = p.row_warps * 8;
    const u32 bytes = (at.step << chunks_log2) + codes_chunk < p.row_chunks ? 16 : 0;
    u32 chunk = chunk_of(at) + codes_from;
    to += codes_to;
#pragma unroll
    for (u32 i = 0; i < kTiles * 2; ++i) {
      copy_async(to, p.packed + static_cast<u64>(within(chunk)) * 16, bytes);
      chunk += rows_apart * p.row_chunks;
      to += rows_apart * 16;
    }
  }

  __device__ __forceinline__ void copy_x(const Cursor4bit& at, u32 to) const {
    const u32 units_log2 = chunks_log2 + 2, first = at.step << units_log2;
    for (u32 i = threadIdx.x; i < m << units_log2; i += blockDim.x) {
      const u32 row = i >> units_log2, unit = i - (row << units_log2);
      const bool inside = first + unit < p.row_chunks * 4;
      const char* from = p.x + (inside ? row * p.x_pitch + (first + unit) * 16 : 0);
      copy_async(to + row * x_pitch + unit * 16, from, inside ? 16 : 0);
    }
  }

  __device__ __forceinline__ void copy(const Cursor4bit& at, u32 slot) const {
    if (at.tile < p.tiles) {
      copy_codes(at, stage(slot));
      copy_x(at, stage(slot) + codes_bytes);
    }
    copies_commit();
  }

  // Until the oldest stage is there, and the one before it free.
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
};

}  // namespace kw
