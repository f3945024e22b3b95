// SPDX-License-Identifier: MIT
// How codes and scales get to the warps of matmul_wide.cuh: three warps bring steps in turn, each from global memory to
// registers long before there is a slot for them.
//
// A lane of a warp that multiplies wants of each row, of 32 of k, bytes place, place + 4, place + 8 and place + 12: the
// pairs that two left matrices have of it. So the bytes of a row are transposed on the way, as 4 by 4.
#pragma once

#include "device/ptx/memory.cuh"
#include "ops/four_bit/device/matmul_wide_place.cuh"
#include "ops/four_bit/device/matmul_wide_walk.cuh"
#include "ops/four_bit/device/scales.cuh"

namespace kw {

__device__ __forceinline__ void transpose_bytes(u32 (&word)[4]) {
  const u32 low[2] = {byte_permute(word[0], word[1], 0x5140), byte_permute(word[2], word[3], 0x5140)};
  const u32 high[2] = {byte_permute(word[0], word[1], 0x7362), byte_permute(word[2], word[3], 0x7362)};
  word[0] = byte_permute(low[0], low[1], 0x5410);
  word[1] = byte_permute(low[0], low[1], 0x7632);
  word[2] = byte_permute(high[0], high[1], 0x5410);
  word[3] = byte_permute(high[0], high[1], 0x7632);
}

template <u32 kCols>
struct WideFeed4bit {
  using Place = WidePlace4bit<kCols>;
  static constexpr u32 kParts = kWideRows / 16, kScales = kWideRows * 2 / kWarp;  // of a step, of a lane
  const KwMatmul4bitWideParams& p;
  const Place place;
  WideWalk4bit walk;
  WidePiece4bit piece;
  u32 skip;            // steps of the piece until the warp's next one
  u32 first_row, row;  // of the weight: the block's in a pair's tile, and of the step
  u32 chunk;           // of the step, the first of two
  float offset;
  u32 codes[kParts][4];

  __device__ __forceinline__ WideFeed4bit(const KwMatmul4bitWideParams& p, u32 rank, u32 warp)
      : p(p), walk(p), piece{}, skip(warp), first_row(rank * kWideRows), offset(scales_offset(p.scales)) {}

  __device__ __forceinline__ bool next() {
    while (skip >= piece.count) {
      skip -= piece.count;
      if (!walk.next(piece)) return false;
    }
    row = piece.tile.column * (kWideRows * kWideCluster) + first_row;
    chunk = (piece.first + skip) * 2;
    skip += kWideFeeders;
    return true;
  }

  // A lane has of a part one chunk of a row: rows of a part in the order 0, 8, 1, 9 …
  __device__ __forceinline__ void fetch_codes() {
    const u32 lane = threadIdx.x % kWarp, mine = chunk + lane % 2, first = row + lane / 4 + lane / 2 % 2 * 8;
#pragma unroll
    for (u32 i = 0; i < kParts; ++i) {
      const u32 of = first + i * 16;
#pragma unroll
      for (u32 j = 0; j < 4; ++j) codes[i][j] = 0;
      if (of < p.n && mine < p.chunks) load_once(p.packed + (of * u64{p.chunks} + mine) * 16, codes[i]);
    }
  }

  // The lane's scale of a step: of which 32 elements, counted through the weight; -1 where there are none.
  __device__ __forceinline__ i64 scaled(u32 i) const {
    const u32 index = threadIdx.x % kWarp + i * kWarp, of = row + index / 2, mine = chunk + index % 2;
    return of < p.n && mine < p.chunks ? of * i64{p.chunks} + mine : -1;
  }

  // To L2 alone: registers are few.
  __device__ __forceinline__ void fetch_scales() {
#pragma unroll
    for (u32 i = 0; i < kScales; ++i) {
      const i64 at = scaled(i);
      if (at >= 0) Scale4bit().prefetch(p.scales, at >> (p.scales.block_log2 - 5));
    }
  }

  __device__ __forceinline__ void put_codes(const typename Place::Codes::Stage& slot) {
    const u32 lane = threadIdx.x % kWarp, to = lane / 2 % 2 * 8 + lane % 2 * 4;
#pragma unroll
    for (u32 i = 0; i < kParts; ++i) {
      transpose_bytes(codes[i]);
#pragma unroll
      for (u32 j = 0; j < 4; ++j) store_shared<4>(place.unit(slot, i, lane / 4, j) + to, &codes[i][j]);
    }
  }

  __device__ __forceinline__ void put_scales(const typename Place::Codes::Stage& slot) const {
    Scale4bit scale[kScales];
#pragma unroll
    for (u32 i = 0; i < kScales; ++i) {
      const i64 at = scaled(i);
      if (at >= 0) scale[i].fetch(p.scales, at >> (p.scales.block_log2 - 5));
    }
#pragma unroll
    for (u32 i = 0; i < kScales; ++i) {
      const i64 at = scaled(i);
      float by = 0.0f;
      if (at >= 0) by = scale[i].get(p.scales, at >> (p.scales.block_log2 - 5), offset);
      const u32 index = threadIdx.x % kWarp + i * kWarp, word[1] = {bits_of_float(by)};
      store_shared<4>(place.scales(slot, index / 2) + index % 2 * 4, word);
    }
  }

  __device__ __forceinline__ void run() {
    typename Place::Codes::Stage slot;
    slot.skip(skip);
    bool more = next();
    if (more) {
      fetch_codes();
      fetch_scales();
    }
#pragma unroll 1
    while (more) {
      barrier_wait(place.codes.empty(slot), slot.phase ^ 1);
      put_codes(slot);
      put_scales(slot);
      __syncwarp();
      if (threadIdx.x % kWarp == 0) barrier_arrive(place.codes.full(slot));
      slot.skip(kWideFeeders);
      more = next();
      if (!more) break;
      fetch_codes();
      fetch_scales();
    }
  }
};

}  // namespace kw
