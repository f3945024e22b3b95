// SPDX-License-Identifier: MIT
// 8-bit codes into values: a unit is 16 bytes of y, of which a thread has four under way, a block's threads apart.
#pragma once

#include "device/ptx/sync.cuh"
#include "ops/optim/device/codes.cuh"
#include "ops/optim/geometry.h"
#include "ops/optim/params.h"

namespace kw {

template <class T>
__device__ __forceinline__ Unit<T, 16> values_of(const Unit<Code, 16 / T::kSize>& codes, const float* map, float by) {
  constexpr u32 kCount = 16 / T::kSize;
  float value[kCount];
#pragma unroll
  for (u32 i = 0; i < kCount; ++i) value[i] = map[codes.word[i / 4] >> (i % 4 * 8) & 255u] * by;
  Unit<T, 16> unit;
  unit.pack(value);
  return unit;
}

// Of a tile, aligned and all there: the units of a thread, of which all are under way before any is worked on.
template <class T>
__device__ __forceinline__ void dequantize_tile(const KwDequantizeBlockwiseParams& p, const float* map, i64 first) {
  constexpr u32 kCount = 16 / T::kSize, kSlots = kBlockwiseSlots, kApart = kBlockwiseThreads;
  Unit<Code, kCount> codes[kSlots];
  float by[kSlots];
  const i64 own = first + threadIdx.x * kCount;
#pragma unroll
  for (u32 s = 0; s < kSlots; ++s) {
    const i64 at = own + s * kApart * kCount;
    load<kCount>(p.codes + at, codes[s].word);
    by[s] = load_float(p.absmax + (at >> p.block_log2) * 4);
  }
#pragma unroll
  for (u32 s = 0; s < kSlots; ++s) {
    const Unit<T, 16> unit = values_of<T>(codes[s], map, by[s]);
    store<16>(p.y + (own + s * kApart * kCount) * T::kSize, unit.word);
  }
}

template <class T>
__device__ __forceinline__ void dequantize_part(const KwDequantizeBlockwiseParams& p, const float* map, i64 first) {
  constexpr u32 kCount = 16 / T::kSize, kApart = kBlockwiseThreads;
#pragma unroll 1
  for (u32 s = 0; s < kBlockwiseSlots; ++s) {
    const i64 at = first + (s * kApart + threadIdx.x) * kCount;
    if (at >= p.count) return;
    Unit<Code, kCount> codes;
    load_unit(p.codes, at, p.count, p.aligned, codes);
    store_unit(p.y, at, p.count, p.aligned, values_of<T>(codes, map, load_float(p.absmax + (at >> p.block_log2) * 4)));
  }
}

template <class T>
__device__ __forceinline__ void dequantize_blockwise(const KwDequantizeBlockwiseParams& p) {
  constexpr u32 kTile = kBlockwiseThreads * kBlockwiseSlots * 16 / T::kSize;
  __shared__ float map[256];
  allow_next_kernel();
  wait_for_previous_kernel();
  map[threadIdx.x] = load_float(p.map + threadIdx.x * 4);
  __syncthreads();
#pragma unroll 1
  for (i64 first = static_cast<i64>(blockIdx.x) * kTile; first < p.count;
       first += static_cast<i64>(gridDim.x) * kTile) {
    if (p.aligned && first + kTile <= p.count) {
      dequantize_tile<T>(p, map, first);
    } else {
      dequantize_part<T>(p, map, first);
    }
  }
}

}  // namespace kw
