// SPDX-License-Identifier: MIT
// What the kernels of the norms share: where a thread stands, the sum of a row, weights.
#pragma once

#include "element.cuh"
#include "norm_params.h"
#include "ptx_memory.cuh"
#include "reduce.cuh"

namespace kw {

// Units of 16 bytes a thread holds, packed: 16 registers, of 40 in all; with a residual 32, of 64.
constexpr int kSlots = 4;
// Units of one element.
constexpr int kScalarSlots = 8;

using Params = KwNormParams;

__device__ __forceinline__ u32 cluster_rank(const Params& p) { return blockIdx.x & ((1u << p.cluster_log2) - 1); }

// Where this thread stands: its row, and which of the row's threads it is.
struct Place {
  i64 row;
  u32 thread;
  u32 threads;
};

__device__ __forceinline__ Place place_in_rows(const Params& p) {
  if (p.row_is_a_warp) {
    const i64 row = static_cast<i64>(blockIdx.x) * (blockDim.x / kWarp) + threadIdx.x / kWarp;
    return {row, threadIdx.x % kWarp, kWarp};
  }
  return {blockIdx.x >> p.cluster_log2, cluster_rank(p) * blockDim.x + threadIdx.x, blockDim.x << p.cluster_log2};
}

// kCluster: a row may be a cluster's.
template <bool kCluster>
__device__ __forceinline__ void begin(const Params& p, SumScratch& scratch) {
#ifdef KW_HAS_CLUSTER
  if (kCluster && p.cluster_log2 > 0) cluster_sum_begin(1u << p.cluster_log2, scratch);
#endif
  allow_next_kernel();
  wait_for_previous_kernel();
}

template <bool kCluster>
__device__ __forceinline__ float row_sum(const Params& p, float value, SumScratch& scratch) {
  value = warp_sum(value);
  if (p.row_is_a_warp) return value;
  value = block_sum(value, scratch);
#ifdef KW_HAS_CLUSTER
  if (kCluster && p.cluster_log2 > 0) value = cluster_sum(value, cluster_rank(p), 1u << p.cluster_log2, scratch);
#endif
  return value;
}

__device__ __forceinline__ float rstd_of(const Params& p, float sum) {
  return rsqrt_approx(fmaf(sum, p.inverse_cols, p.eps));
}

template <int kCount>
__device__ __forceinline__ float squares(const float (&h)[kCount]) {
  float even = 0.0f, odd = 0.0f;
#pragma unroll
  for (int i = 0; i < kCount; ++i) (i % 2 ? odd : even) = fmaf(h[i], h[i], i % 2 ? odd : even);
  return even + odd;
}

// Row `row` of a tensor, from byte `offset` on.
template <class P>
__device__ __forceinline__ P* row_at(P* tensor, i64 row, i64 pitch, u32 offset) {
  return computed_once(tensor + row * pitch + offset);
}

// The weights of the unit of kBytes that begins at `column`. `like_x` is false where that case was dealt with.
template <class T, int kBytes>
__device__ __forceinline__ void load_weight(const Params& p, u32 column, float* weight, bool like_x = true) {
  constexpr int kCount = Unit<T, kBytes>::kCount;
  if (like_x && p.weight_kind == KW_WEIGHT_LIKE_X) {
    Unit<T, kBytes> unit;
    load<kBytes>(p.weight + column * T::kSize, unit.word);
    unit.unpack(weight);
  } else if (T::kSize < 4 && p.weight_kind == KW_WEIGHT_FLOAT32) {
    constexpr int kPiece = kBytes == 16 ? 16 : 4;
#pragma unroll
    for (int i = 0; i < kCount * 4 / kPiece; ++i) {
      Unit<Float32, kPiece> unit;
      load<kPiece>(p.weight + column * 4 + i * kPiece, unit.word);
      unit.unpack(weight + i * kPiece / 4);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) weight[i] = 1.0f;
  }
}

// The same one by one, for columns that begin anywhere.
template <class T, int kCount>
__device__ __forceinline__ void load_weight_elements(const Params& p, u32 column, float* weight) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) load_weight<T, T::kSize>(p, column + i, weight + i);
}

template <int kCount>
__device__ __forceinline__ void scale(float (&h)[kCount], float rstd, const float (&weight)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) h[i] = h[i] * rstd * weight[i];
}

template <int kCount>
__device__ __forceinline__ void add_to(float (&h)[kCount], const float (&other)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) h[i] += other[i];
}

template <class T, int kBytes, int kCount>
__device__ __forceinline__ void store_unit(char* to, const float (&value)[kCount]) {
  Unit<T, kBytes> unit;
  unit.pack(value);
  store<kBytes>(to, unit.word);
}

}  // namespace kw
