// SPDX-License-Identifier: MIT
// The end of matmul_narrow.cuh: warps of several blocks that have the same rows of the weight add up what each has,
// always in the same order, and store it. A warp that has its rows alone waits for nobody.
//
// Eight columns are a part. The sharers of a warp's rows own its parts in turn; each sends what it has of a part to
// where its owner keeps it in shared memory: four sums of a lane are together there, but lanes are in another order, so
// that 16 lanes then read 16 rows of a column from different banks and store them side by side.
#pragma once

#include "device/element.cuh"
#include "device/ptx/bulk.cuh"
#include "device/ptx/memory.cuh"
#include "device/ptx/sync.cuh"
#include "ops/four_bit/device/matmul_narrow_shared.cuh"

namespace kw {

template <class T, u32 kCols>
struct NarrowEpilogue4bit {
  static constexpr u32 kParts = kCols / 8;
  static constexpr u32 kPartBytes = kWarp * 16;
  static_assert(kParts * kPartBytes <= kStepSlots * kStepBytes, "a warp's own sums lie where its codes were");
  const KwMatmul4bitNarrowParams& p;
  const NarrowShared4bit<kCols> shared;
  const NarrowPart4bit part;
  u32 warp, lane;
  u32 sums;  // where the first of the warp's parts of this block is kept, from its first sharer on

  __device__ __forceinline__ explicit NarrowEpilogue4bit(const KwMatmul4bitNarrowParams& p)
      : p(p), part(p, computed_here(blockIdx.x), computed_here(threadIdx.x)) {
    const u32 thread = computed_here(threadIdx.x), rounds = (kParts + part.sharers - 1) / part.sharers;
    warp = same_in_warp(thread / kWarp);
    lane = thread % kWarp;
    sums = part.sharers > 1 ? shared.x + warp * rounds * part.sharers * kPartBytes
                            : shared.codes + warp * (kStepSlots * kStepBytes);
  }

  // Returns how many bytes the others give to this block.
  __device__ __forceinline__ u32 give(const float (&sum)[kCols / 2]) const {
    u32 owner = warp % part.sharers, turn = 0, expected = 0;
    u32 to = sums + part.sharer * kPartBytes + (lane ^ lane / 8) * 16;
#pragma unroll
    for (u32 i = 0; i < kParts; ++i) {
      u32 word[4];
#pragma unroll
      for (u32 j = 0; j < 4; ++j) word[j] = bits_of_float(sum[i * 4 + j]);
      if (owner == part.sharer) {
        store_shared<16>(to, word);
        expected += (part.sharers - 1) * kPartBytes;
      } else {
        store_async(to, shared.sums_barrier(), part.block_of(owner, p.sides), word);
      }
      owner = owner + 1 < part.sharers ? owner + 1 : 0;
      turn = turn + 1 < part.sharers ? turn + 1 : 0;
      if (turn == 0) to += part.sharers * kPartBytes;
    }
    return expected;
  }

  // Every other column of a part, whose sums begin at `from`: of a row the lane's, `to` in memory.
  __device__ __forceinline__ void store_part(u32 from, u32 column, char* to, i64 pitch, float bias) const {
    const u32 row = lane % 8, word = lane / 16 + lane / 8 % 2 * 2;  // of the four that a lane had
    float total[4] = {};
#pragma unroll 1
    for (u32 sharer = 0; sharer < part.sharers; ++sharer, from += kPartBytes) {
#pragma unroll
      for (u32 j = 0; j < 4; ++j) {
        u32 bits[1];
        load_shared<4>(from + (row * 4 + (j ^ row / 2)) * 16 + word * 4, bits);
        total[j] += float_of_bits(bits[0]);
      }
    }
#pragma unroll
    for (u32 j = 0; j < 4; ++j, to += 2 * pitch) {
      if (column + j * 2 >= p.m) return;
      if (p.sums != nullptr) {
        const u32 bits[1] = {bits_of_float(total[j])};
        store<4>(to, bits);
      } else {
        const float value[1] = {total[j] * p.by + bias};
        Unit<T, 2> unit;
        unit.pack(value);
        store<2>(to, unit.word);
      }
    }
  }

  __device__ __forceinline__ void store_parts() const {
    const u32 n = part.first_row + part.row + lane % 16, owner = warp % part.sharers;
    if (n >= p.n) return;
    const float bias = p.bias != nullptr ? load_element<T>(p.bias + n * u64{2}) : 0.0f;
    u32 i = part.sharer + (part.sharer < owner ? part.sharers : 0) - owner;
    u32 column = part.group * kCols + i * 8 + lane / 16, from = sums;
    const i64 pitch = p.sums != nullptr ? p.n * i64{4} : p.y_pitch;
    char* to = p.sums != nullptr ? p.sums + ((part.piece * u64{p.m} + column) * p.n + n) * 4
                                 : p.y + column * p.y_pitch + n * i64{2};
#pragma unroll 1
    for (; i < kParts; i += part.sharers) {
      store_part(from, column, to, pitch, bias);
      from += part.sharers * kPartBytes;
      column += part.sharers * 8;
      to += part.sharers * 8 * pitch;
    }
  }

  __device__ __forceinline__ void run(const float (&sum)[kCols / 2]) const {
    const bool clustered = p.split * p.sides > 1;
    if (clustered) cluster_arrive_after_all();
    const bool alone = part.sharers == 1;
    if (alone) {
      __syncwarp();  // the warp's last codes have been read
    } else {
      cluster_wait();
    }
    const u32 expected = give(sum);
    __syncwarp();
    if (!alone) {
      if (lane == 0) barrier_expect(shared.sums_barrier(), expected);
      barrier_wait(shared.sums_barrier(), 0);
    }
    store_parts();
    __syncwarp();
    if (alone && clustered) cluster_wait();
  }
};

}  // namespace kw
