// SPDX-License-Identifier: MIT
// Weights to codes and back. The scale is the mean size of all weights, or of a row's; a weight more than half of that
// from 0 is 1 or -1. A thread has 16 bytes of codes: of two rows 32 weights each, in runs of four.
#pragma once

#include "device/element.cuh"
#include "device/ptx/memory.cuh"
#include "device/ptx/sync.cuh"
#include "device/reduce.cuh"
#include "ops/ternary/params.h"

namespace kw {

__device__ __forceinline__ float ternary_scale(float sum, float count) {
  const float mean = count > 0.0f ? sum / count : 0.0f;
  return mean < 1e-5f ? 1e-5f : mean;  // a NaN stays
}

template <class T>
__device__ __forceinline__ float ternary_element(const char* from) {
  Unit<T, T::kSize> unit;
  float value[1];
  load<T::kSize>(from, unit.word);
  unit.unpack(value);
  return value[0];
}

// Four of a row, those that there are; others are 0.
template <class T>
__device__ __forceinline__ void ternary_four(const KwTernaryCodesParams& p, u32 row, u32 k, float (&value)[4]) {
  const char* const from = p.wide + row * p.pitch + k * u64{T::kSize};
  Unit<T, T::kSize * 4> unit;
  unit.clear();
  if (row < p.n && k + 4 <= p.k && p.vectors != 0) {
    load<T::kSize * 4>(from, unit.word);
    return unit.unpack(value);
  }
#pragma unroll
  for (u32 i = 0; i < 4; ++i) {
    value[i] = row < p.n && k + i < p.k ? ternary_element<T>(from + i * T::kSize) : 0.0f;
  }
}

// A block has a row: its sum of sizes, or its scale where each row has one.
template <class T>
__device__ __forceinline__ void ternary_row_sums(const KwTernaryCodesParams& p) {
  __shared__ SumScratch scratch;
  wait_for_previous_kernel();
  const u32 row = blockIdx.x;
  float sum = 0.0f;
#pragma unroll 4
  for (u32 k = threadIdx.x * 4; k < p.k; k += blockDim.x * 4) {
    float value[4];
    ternary_four<T>(p, row, k, value);
    sum += (fabsf(value[0]) + fabsf(value[1])) + (fabsf(value[2]) + fabsf(value[3]));
  }
  sum = block_sum(warp_sum(sum), scratch);
  if (threadIdx.x != 0) return;
  const u32 word[1] = {bits_of_float(p.scales != 0 ? ternary_scale(sum, static_cast<float>(p.k)) : sum)};
  store<4>((p.scales != 0 ? p.scale : p.packed) + row * u64{4}, word);
}

// One block: the scale of all, from the rows' sums, which are where codes will be.
__device__ __forceinline__ void ternary_one_scale(const KwTernaryCodesParams& p) {
  __shared__ SumScratch scratch;
  wait_for_previous_kernel();
  float sum = 0.0f;
  for (u32 row = threadIdx.x; row < p.n && p.k > 0; row += blockDim.x) {
    u32 word[1];
    load<4>(p.packed + row * u64{4}, word);
    sum += float_of_bits(word[0]);
  }
  sum = block_sum(warp_sum(sum), scratch);
  if (threadIdx.x != 0) return;
  const u32 word[1] = {bits_of_float(ternary_scale(sum, static_cast<float>(p.n) * static_cast<float>(p.k)))};
  store<4>(p.scale, word);
}

// Where a thread's 16 bytes lie.
struct TernaryPlace {
  u64 offset;
  u32 row, k;
  bool inside;

  __device__ __forceinline__ explicit TernaryPlace(const KwTernaryCodesParams& p) {
    const u64 index = u64{blockIdx.x} * blockDim.x + threadIdx.x, block = index / 32;
    const u32 lane = threadIdx.x % 32;
    offset = index * 16;
    inside = block < u64{p.groups} * p.blocks;
    const u32 group = static_cast<u32>(block / p.blocks);
    row = group * KW_TERNARY_ROWS + lane / 4;
    k = static_cast<u32>(block - u64{group} * p.blocks) * KW_TERNARY_DEPTH + lane % 4 * 4;
  }
};

__device__ __forceinline__ float ternary_scale_of(const KwTernaryCodesParams& p, u32 row) {
  u32 word[1];
  const u32 index = p.scales == 0 ? 0 : row < p.n ? row : p.n - 1;
  load<4>(p.scale + index * u64{4}, word);
  return float_of_bits(word[0]);
}

template <class T>
__device__ __forceinline__ void ternary_pack(const KwTernaryCodesParams& p) {
  wait_for_previous_kernel();
  const TernaryPlace at(p);
  if (!at.inside) return;
  const float once[2] = {1.0f / ternary_scale_of(p, at.row), 1.0f / ternary_scale_of(p, at.row + 8)};
  u32 word[4] = {};
#pragma unroll 1
  for (u32 step = 0; step < KW_TERNARY_STEPS; ++step) {
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      float value[4];
      ternary_four<T>(p, at.row + i % 2 * 8, at.k + step * 32 + i / 2 * 16, value);
#pragma unroll
      for (u32 j = 0; j < 4; ++j) {
        const float scaled = value[j] * once[i % 2];
        const u32 code = scaled > 0.5f ? 2u : scaled < -0.5f ? 0u : 1u;
        word[i] |= code << (j * 8 + step * 2);
      }
    }
  }
  store<16>(p.packed + at.offset, word);
}

template <class T>
__device__ __forceinline__ void ternary_unpack(const KwTernaryCodesParams& p) {
  wait_for_previous_kernel();
  const TernaryPlace at(p);
  if (!at.inside) return;
  const float scale[2] = {ternary_scale_of(p, at.row), ternary_scale_of(p, at.row + 8)};
  u32 word[4];
  load<16>(p.packed + at.offset, word);
#pragma unroll 1
  for (u32 step = 0; step < KW_TERNARY_STEPS; ++step) {
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      const u32 row = at.row + i % 2 * 8, k = at.k + step * 32 + i / 2 * 16;
      Unit<T, T::kSize * 4> unit;
      float value[4];
#pragma unroll
      for (u32 j = 0; j < 4; ++j) {
        value[j] = (static_cast<float>(word[i] >> (j * 8 + step * 2) & 3u) - 1.0f) * scale[i % 2];
      }
      if (row >= p.n || k >= p.k) continue;
      unit.pack(value);
      char* const to = p.wide + row * p.pitch + k * u64{T::kSize};
      if (k + 4 <= p.k && p.vectors != 0) {
        store<T::kSize * 4>(to, unit.word);
        continue;
      }
#pragma unroll
      for (u32 j = 0; j < 4; ++j) {
        const u32 one[1] = {T::kSize == 4 ? unit.word[j * T::kSize / 4] : unit.word[j / 2] >> (j % 2 * 16)};
        if (k + j < p.k) store<T::kSize>(to + j * T::kSize, one);
      }
    }
  }
}

}  // namespace kw
