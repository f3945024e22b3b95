// SPDX-License-Identifier: MIT
// A row by the threads of a warp or of a block, which hold it in registers as units of 16 bytes; of a longer row a
// piece at a time.
#pragma once

#include "device/units.cuh"

namespace kw {

// Reductions over the threads that share a row; each is used once a launch.
struct RowScratch {
  SumScratch squares;
  u32 most[kMaxWarps];
  int sum[kMaxWarps];
};

template <bool kWarpOnly>
struct RowThreads {
  RowScratch* scratch;

  __device__ __forceinline__ u32 thread() const { return kWarpOnly ? threadIdx.x % kWarp : threadIdx.x; }
  __device__ __forceinline__ u32 count() const { return kWarpOnly ? kWarp : blockDim.x; }

  __device__ __forceinline__ float sum(float value) const {
    value = warp_sum(value);
    if constexpr (!kWarpOnly) value = block_sum(value, scratch->squares);
    return value;
  }

  __device__ __forceinline__ u32 largest(u32 most) const {
    most = largest_of_lanes(most, kWarp);
    if constexpr (!kWarpOnly) {
      const u32 lane = threadIdx.x % kWarp, warps = blockDim.x / kWarp;
      if (warps == 1) return most;
      if (lane == 0) scratch->most[threadIdx.x / kWarp] = most;
      __syncthreads();
      most = largest_of_lanes(scratch->most[lane < warps ? lane : 0], kWarp);
    }
    return most;
  }

  __device__ __forceinline__ static int over_warp(int value) {
#pragma unroll
    for (u32 mask = kWarp / 2; mask > 0; mask /= 2) {
      value += static_cast<int>(shuffle_xor_bits(static_cast<u32>(value), mask));
    }
    return value;
  }

  __device__ __forceinline__ int total(int value) const {
    value = over_warp(value);
    if constexpr (!kWarpOnly) {
      const u32 lane = threadIdx.x % kWarp, warps = blockDim.x / kWarp;
      if (warps == 1) return value;
      if (lane == 0) scratch->sum[threadIdx.x / kWarp] = value;
      __syncthreads();
      value = over_warp(lane < warps ? scratch->sum[lane] : 0);
    }
    return value;
  }
};

template <class T, u32 kUnits, bool kWarpOnly>
struct RowUnits {
  static constexpr u32 kCount = 16 / T::kSize;
  const char* const from;
  const i64 cols;
  const bool vectors;  // whole units, on 16 bytes
  const RowThreads<kWarpOnly> threads;
  const i64 row;
  Unit<T, 16> unit[kUnits];

  __device__ __forceinline__ RowUnits(const char* from, i64 cols, bool vectors, RowScratch* scratch, i64 row)
      : from(from), cols(cols), vectors(vectors), threads{scratch}, row(row) {}

  __device__ __forceinline__ i64 element(u32 piece, u32 i) const {
    return (static_cast<i64>(piece * kUnits + i) * threads.count() + threads.thread()) * kCount;
  }

  __device__ __forceinline__ u32 pieces() const {
    return static_cast<u32>((cols - 1) / (kUnits * kCount * threads.count())) + 1;
  }

  // do_it(unit, element) for each, in code that stands once. Registers have no index: they move instead.
  template <class F>
  __device__ __forceinline__ void one_by_one(u32 piece, F do_it) {
#pragma unroll 1
    for (u32 i = 0; i < kUnits; ++i) {
      do_it(unit[0], element(piece, i));
      const Unit<T, 16> first = unit[0];
#pragma unroll
      for (u32 j = 0; j + 1 < kUnits; ++j) unit[j] = unit[j + 1];
      unit[kUnits - 1] = first;
    }
  }

  __device__ __forceinline__ void fetch(u32 piece) {
    if (!vectors) {
      one_by_one(piece, [&](Unit<T, 16>& of, i64 at) { load_unit(from, at, cols, false, of); });
      return;
    }
#pragma unroll
    for (u32 i = 0; i < kUnits; ++i) {
      unit[i].clear();
      const i64 at = element(piece, i);
      if (at < cols) load<16>(from + at * T::kSize, unit[i].word);
    }
  }

  __device__ __forceinline__ u32 largest_of_units() const {
    u32 most = 0;
#pragma unroll
    for (u32 i = 0; i < kUnits; ++i) {
      const u32 size = largest_of_unit(unit[i]);
      most = size > most ? size : most;
    }
    return most;
  }
};

}  // namespace kw
