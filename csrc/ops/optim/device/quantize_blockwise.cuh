// SPDX-License-Identifier: MIT
// Values into 8-bit codes with a scale a block. A tile is four rows of units of 16 bytes of x, a unit a thread; every
// block of elements lies in one tile: in a few lanes' units, in some warps' of a row, or in several rows.
#pragma once

#include "device/ptx/sync.cuh"
#include "ops/optim/device/codes.cuh"
#include "ops/optim/geometry.h"
#include "ops/optim/params.h"

namespace kw {

constexpr u32 kBlockwiseWarps = kBlockwiseThreads / kWarp;
constexpr u32 kBlockwiseRows = kWarp / kBlockwiseWarps;  // so that a tile has as many rows of a warp as a warp lanes
static_assert(kBlockwiseRows == kBlockwiseSlots);

template <class T>
struct QuantizeBlockwise {
  static constexpr u32 kCount = 16 / T::kSize, kOfWarp = kCount * kWarp;
  static constexpr u32 kRow = kBlockwiseThreads * kCount, kTile = kRow * kBlockwiseRows;
  const KwQuantizeBlockwiseParams& p;
  const CodeTable& table;
  u32 (&most)[2][kWarp];  // the largest size of each row of a warp, in turns
  const CodeShape shape;
  const u32 lanes, warps;  // that share a block
  Unit<T, 16> unit[kBlockwiseRows], next[kBlockwiseRows];

  __device__ __forceinline__ QuantizeBlockwise(const KwQuantizeBlockwiseParams& p, const CodeTable& table,
                                               u32 (&most)[2][kWarp], const CodeShape& shape)
      : p(p),
        table(table),
        most(most),
        shape(shape),
        lanes(1u << p.block_log2 < kOfWarp ? (1u << p.block_log2) / kCount : kWarp),
        warps(1u << p.block_log2 < kOfWarp ? 1 : (1u << p.block_log2) / kOfWarp) {}

  __device__ __forceinline__ i64 element(i64 first, u32 row) const {
    return first + (row * kBlockwiseThreads + threadIdx.x) * kCount;
  }

  __device__ __forceinline__ void fetch(i64 first) {
#pragma unroll
    for (u32 row = 0; row < kBlockwiseRows; ++row) load<16>(p.x + element(first, row) * T::kSize, next[row].word);
  }

  __device__ __forceinline__ void fetch_part(i64 first) {
#pragma unroll 1
    for (u32 row = 0; row < kBlockwiseRows; ++row) {
#pragma unroll
      for (u32 i = 0; i + 1 < kBlockwiseRows; ++i) next[i] = next[i + 1];
      load_unit(p.x, element(first, row), p.count, p.aligned, next[kBlockwiseRows - 1]);
    }
  }

  // The scales' bits of the units' blocks.
  __device__ __forceinline__ void scales(u32 turn, u32 (&bits)[kBlockwiseRows]) const {
#pragma unroll
    for (u32 row = 0; row < kBlockwiseRows; ++row) bits[row] = largest_of_lanes(largest_of_unit(unit[row]), lanes);
    if (warps > 1) {
      const u32 lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
#pragma unroll
      for (u32 row = 0; row < kBlockwiseRows; ++row) {
        if (lane == row) most[turn][row * kBlockwiseWarps + warp] = bits[row];
      }
      __syncthreads();
      const u32 all = largest_of_lanes(most[turn][lane], warps);
#pragma unroll
      for (u32 row = 0; row < kBlockwiseRows; ++row) {
        bits[row] = bits_of_float(shuffle_from(float_of_bits(all), row * kBlockwiseWarps + warp));
      }
    }
#pragma unroll
    for (u32 row = 0; row < kBlockwiseRows; ++row) bits[row] = scale_bits(bits[row]);
  }

  // A row at a time, the first of the four: with all of them unrolled the code is four times as long, and no faster.
  __device__ __forceinline__ void write(i64 first, bool whole, u32 (&bits)[kBlockwiseRows]) {
#pragma unroll 1
    for (u32 row = 0; row < kBlockwiseRows; ++row) {
      const i64 at = element(first, row);
      if (!whole && at >= p.count) return;
      const u32 scale[1] = {bits[0]};
      if ((at & ((1ll << p.block_log2) - 1)) == 0) store<4>(p.absmax + (at >> p.block_log2) * 4, scale);
      const float by = reciprocal_of_normal(float_of_bits(bits[0]));
      float value[kCount];
      unit[0].unpack(value);
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) value[i] = multiply_flushed(value[i], by);
      Unit<Code, kCount> codes;
      table.codes(shape, value, codes);
      store_unit(p.codes, at, p.count, p.aligned, codes);
#pragma unroll
      for (u32 i = 0; i + 1 < kBlockwiseRows; ++i) {
        unit[i] = unit[i + 1];
        bits[i] = bits[i + 1];
      }
    }
  }

  __device__ __forceinline__ void run() {
    const i64 apart = static_cast<i64>(gridDim.x) * kTile;
    auto whole = [&](i64 first) { return p.aligned && first + kTile <= p.count; };
    i64 first = static_cast<i64>(blockIdx.x) * kTile;
    if (whole(first)) fetch(first);
    u32 bits[kBlockwiseRows], turn = 0;
#pragma unroll 1
    for (; first < p.count; first += apart, turn ^= 1) {
      const bool all = whole(first);
      if (!all) fetch_part(first);
#pragma unroll
      for (u32 row = 0; row < kBlockwiseRows; ++row) unit[row] = next[row];
      if (whole(first + apart)) fetch(first + apart);
      scales(turn, bits);
      write(first, all, bits);
    }
  }
};

template <class T>
__device__ __forceinline__ void quantize_blockwise(const KwQuantizeBlockwiseParams& p) {
  __shared__ CodeTable table;
  __shared__ u32 most[2][kWarp];
  allow_next_kernel();
  wait_for_previous_kernel();
  const CodeShape shape = shape_of_map(p.map);
  table.fill(p.map, shape);
  __syncthreads();
  QuantizeBlockwise<T>(p, table, most, shape).run();
}

}  // namespace kw
