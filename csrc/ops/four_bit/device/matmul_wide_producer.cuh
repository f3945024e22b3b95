// SPDX-License-Identifier: MIT
// What becomes of codes before the warps of matmul_wide.cuh multiply: three warps take steps in turn.
//
// A lane of a warp that multiplies wants of each row, of 32 of k, bytes place, place + 4, place + 8 and place + 12: the
// pairs that two left matrices have of it. So the bytes of a row are transposed on the way, as 4 by 4. Scales come with
// them: these are on their way to registers from the warp's step before on.
#pragma once

#include "device/ptx/memory.cuh"
#include "ops/four_bit/device/matmul_wide_scheduler.cuh"
#include "ops/four_bit/device/matmul_wide_shared.cuh"
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
struct WideProducer4bit {
  using Shared = WideShared4bit<kCols>;
  using Slot = typename Shared::Codes::Stage;
  static constexpr u32 kParts = kWideRows / 16, kRows = kWideRows / kWarp;  // of a step; of a lane
  const KwMatmul4bitWideParams& p;
  const Shared shared;
  WideScheduler4bit scheduler;
  WidePiece4bit piece;
  u32 skip;            // steps of the piece until the warp's next one
  u32 first_row, row;  // of the weight: the block's in a pair's tile, and of the step
  u32 chunk;           // of the step, the first of two
  Scale4bit scale[kRows][2];
  u32 codes_to[4], scales_to;  // of the lane, in a slot
  i64 first[kRows];            // chunks of these, counted through the weight; -1: there are none

  __device__ __forceinline__ WideProducer4bit(const KwMatmul4bitWideParams& p, u32 rank, u32 warp)
      : p(p), scheduler(p), piece{}, skip(warp), first_row(rank * kWideRows) {
    const u32 lane = threadIdx.x % kWarp, of = lane / 2;
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
      codes_to[j] = computed_once(Shared::unit(of % 8, j) + of / 8 * 8 + (lane ^ of / 4) % 2 * 4);
    }
    scales_to = computed_once(Shared::scales(lane));
  }

  __device__ __forceinline__ bool next() {
    while (skip >= piece.count) {
      skip -= piece.count;
      if (!scheduler.next(piece)) return false;
    }
    row = piece.tile.column * (kWideRows * kWideCluster) + first_row;
    chunk = (piece.first + skip) * 2;
    skip += kWideFeeders;
    return true;
  }

  // Whether a row's two chunks of a step may be of two blocks.
  __device__ __forceinline__ bool fine() const { return p.scales.block_log2 == 5 || p.chunks % 2 != 0; }

  // The block of a chunk.
  __device__ __forceinline__ i64 block(i64 of) const { return of >> (p.scales.block_log2 - 5); }

  __device__ __forceinline__ void fetch_scales() {
#pragma unroll
    for (u32 i = 0; i < kRows; ++i) {
      const u32 of = row + threadIdx.x % kWarp + i * kWarp;
      first[i] = of < p.n ? of * i64{p.chunks} + chunk : -1;
      if (of >= p.n) continue;
      scale[i][0].fetch(p.scales, block(first[i]));
      if (fine() && chunk + 1 < p.chunks) scale[i][1].fetch(p.scales, block(first[i] + 1));
    }
  }

  // Zero where there are no elements.
  __device__ __forceinline__ void put_scales(const Slot& slot, bool both) const {
    const u32 to = shared.slot(slot) + scales_to;
#pragma unroll
    for (u32 i = 0; i < kRows; ++i) {
      float by[2] = {};
      if (first[i] >= 0) by[0] = by[1] = scale[i][0].get(p.scales, block(first[i]));
      if (fine() && both && first[i] >= 0) by[1] = scale[i][1].get(p.scales, block(first[i] + 1));
      const u32 word[2] = {bits_of_float(by[0]), both ? bits_of_float(by[1]) : 0};
      store_shared<8>(to + i * (2 * kPairPitch), word);
    }
  }

  // A lane has of 16 rows a chunk of one; in the boxes of TMA the two of a row are exchanged in every other four rows.
  __device__ __forceinline__ void put_codes(const Slot& slot, u32 from) const {
    const u32 begin = shared.slot(slot), mine = from + threadIdx.x % kWarp * 16;
    const u32 to[4] = {begin + codes_to[0], begin + codes_to[1], begin + codes_to[2], begin + codes_to[3]};
#pragma unroll
    for (u32 i = 0; i < kParts; ++i) {
      u32 word[4];
      load_shared<16>(mine + i * (16 * kWideDepth / 2), word);
      transpose_bytes(word);
#pragma unroll
      for (u32 j = 0; j < 4; ++j) store_shared<4>(to[j] + i * Shared::kUnits, &word[j]);
    }
  }

  __device__ __forceinline__ void run() {
    Slot slot;
    typename Shared::X::Stage stage;
    slot.skip(skip);
    stage.skip(skip);
    bool more = next();
    if (more) fetch_scales();
#pragma unroll 1
    while (more) {
      barrier_wait(shared.codes.empty(slot), slot.phase ^ 1);
      put_scales(slot, chunk + 1 < p.chunks);
      more = next();
      if (more) fetch_scales();
      shared.x.wait(stage);
      put_codes(slot, shared.x.at(stage) + Shared::kXBytes);
      __syncwarp();
      if (threadIdx.x % kWarp == 0) {
        barrier_arrive(shared.codes.full(slot));
        barrier_arrive(shared.x.empty(stage));
      }
      slot.skip(kWideFeeders);
      stage.skip(kWideFeeders);
    }
  }
};

}  // namespace kw
