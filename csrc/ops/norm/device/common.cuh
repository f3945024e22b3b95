// SPDX-License-Identifier: MIT
// What the kernels of the norms share: where a thread stands, the statistics of a row, weight and bias. kCentered says
// which norm: LayerNorm takes the mean off, RMS norm does not and has neither mean nor bias.
#pragma once

#include "device/element.cuh"
#include "device/ptx/memory.cuh"
#include "device/reduce.cuh"
#include "ops/norm/geometry.h"

namespace kw {

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

template <int kCount>
__device__ __forceinline__ float squares(const float (&h)[kCount]) {
  float even = 0.0f, odd = 0.0f;
#pragma unroll
  for (int i = 0; i < kCount; ++i) (i % 2 ? odd : even) = fmaf(h[i], h[i], i % 2 ? odd : even);
  return even + odd;
}

template <int kCount>
__device__ __forceinline__ float sum_of(const float (&h)[kCount]) {
  float even = 0.0f, odd = 0.0f;
#pragma unroll
  for (int i = 0; i < kCount; ++i) (i % 2 ? odd : even) += h[i];
  return even + odd;
}

template <int kCount>
__device__ __forceinline__ void subtract(float (&h)[kCount], float value) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) h[i] -= value;
}

// What a row is normalised by.
struct Statistics {
  float mean;
  float rstd;
};

// What a thread gathers of its elements while it reads them, and what of the row is made of that.
template <bool kCentered>
struct Tally;

template <>
struct Tally<false> {
  using Scratch = SumScratch;
  using Part = float;  // what a warp, a block or a cluster knows of a row
  float total = 0.0f;

  template <int kCount>
  __device__ __forceinline__ void begin(const float (&)[kCount]) {}

  template <int kCount>
  __device__ __forceinline__ void begin_alone(const float (&)[kCount]) {}

  template <int kCount>
  __device__ __forceinline__ void take(const float (&h)[kCount]) {
    total += squares(h);
  }

  // The same of lanes that take single elements.
  __device__ __forceinline__ void begin_elements(float, bool) {}
  __device__ __forceinline__ void take_element(float h) { total = fmaf(h, h, total); }
  __device__ __forceinline__ void count_elements(int) {}

  // `count` is how many elements the warp took.
  __device__ __forceinline__ float of_warp(float = 0.0f) const { return warp_sum(total); }

  static __device__ __forceinline__ Part merge(float part, u32 lanes) { return lanes_sum(part, lanes); }

  static __device__ __forceinline__ Statistics statistics(const Params& p, float sum) {
    return {0.0f, rsqrt_approx(fmaf(sum, p.inverse_cols, p.eps))};
  }

  // Of a row that is `lanes` lanes' side by side, a power of two.
  __device__ __forceinline__ Statistics of_lanes(const Params& p, u32 lanes) const {
    return statistics(p, lanes_sum(total, lanes));
  }

  template <bool kCluster>
  __device__ __forceinline__ Statistics of_row(const Params& p, Scratch& scratch) const {
    float sum = warp_sum(total);
    if (!p.row_is_a_warp) {
      sum = block_sum(sum, scratch);
#ifdef KW_HAS_CLUSTER
      if (kCluster && p.cluster_log2 > 0) sum = cluster_sum(sum, cluster_rank(p), 1u << p.cluster_log2, scratch);
#endif
    }
    return statistics(p, sum);
  }
};

// Distances are taken from the mean of the first unit of the warp's first lane. That is near enough to the mean of all
// its elements: of n units, the square of the distance is at most n times their variance.
template <>
struct Tally<true> {
  using Scratch = MomentsScratch;
  using Part = Moments;
  float count = 0.0f, origin = 0.0f, total = 0.0f, total_squares = 0.0f;

  // All lanes of a warp call this before they take anything.
  template <int kCount>
  __device__ __forceinline__ void begin(const float (&h)[kCount]) {
    origin = shuffle_from(sum_of(h) * (1.0f / kCount), 0);
  }

  // The same for lanes that need not agree: their tallies may be merged by of_lanes() alone.
  template <int kCount>
  __device__ __forceinline__ void begin_alone(const float (&h)[kCount]) {
    origin = sum_of(h) * (1.0f / kCount);
  }

  template <int kCount>
  __device__ __forceinline__ void take(const float (&h)[kCount]) {
    float off[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) off[i] = h[i] - origin;
    count += kCount;
    total += sum_of(off);
    total_squares += squares(off);
  }

  // Of lanes that take single elements: distances are taken from the mean of the warp's first ones.
  __device__ __forceinline__ void begin_elements(float first, bool has) {
    origin = warp_sum(has ? first : 0.0f) * reciprocal_approx(fmaxf(warp_sum(has ? 1.0f : 0.0f), 1.0f));
  }
  __device__ __forceinline__ void take_element(float h) {
    const float off = h - origin;
    total += off;
    total_squares = fmaf(off, off, total_squares);
  }
  __device__ __forceinline__ void count_elements(int elements) { count += static_cast<float>(elements); }

  __device__ __forceinline__ Moments of_warp(float of_all) const {
    return moments_of(of_all, origin, warp_sum(total), warp_sum(total_squares));
  }

  __device__ __forceinline__ Moments of_warp() const { return of_warp(warp_sum(count)); }

  static __device__ __forceinline__ Moments merge(const Moments& part, u32 lanes) { return lanes_moments(part, lanes); }

  static __device__ __forceinline__ Statistics statistics(const Params& p, const Moments& row) {
    return {row.mean, rsqrt_approx(fmaf(row.m2, p.inverse_cols, p.eps))};
  }

  // Each lane may have an origin of its own.
  __device__ __forceinline__ Statistics of_lanes(const Params& p, u32 lanes) const {
    return statistics(p, lanes_moments(moments_of(count, origin, total, total_squares), lanes));
  }

  template <bool kCluster>
  __device__ __forceinline__ Statistics of_row(const Params& p, Scratch& scratch) const {
    const float sum = warp_sum(total), sum_of_squares = warp_sum(total_squares);
    Moments row =
        moments_of(p.row_is_a_warp ? static_cast<float>(p.cols) : warp_sum(count), origin, sum, sum_of_squares);
    if (!p.row_is_a_warp) {
      row = block_moments(row, scratch);
#ifdef KW_HAS_CLUSTER
      if (kCluster && p.cluster_log2 > 0) {
        row = cluster_moments(row, cluster_rank(p), 1u << p.cluster_log2, scratch);
      }
#endif
    }
    return statistics(p, row);
  }
};

// kCluster: a row may be a cluster's.
template <bool kCluster, class Scratch>
__device__ __forceinline__ void begin(const Params& p, Scratch& scratch) {
#ifdef KW_HAS_CLUSTER
  if (kCluster && p.cluster_log2 > 0) cluster_begin(1u << p.cluster_log2, scratch);
#endif
  allow_next_kernel();
  wait_for_previous_kernel();
}

template <bool kCentered>
__device__ __forceinline__ void store_statistics(const Params& p, i64 row, const Statistics& of) {
  if (kCentered && p.mean != nullptr) p.mean[row] = of.mean;
  if (p.rstd != nullptr) p.rstd[row] = of.rstd;
}

// Row `row` of a tensor, from byte `offset` on.
template <class P>
__device__ __forceinline__ P* row_at(P* tensor, i64 row, i64 pitch, u32 offset) {
  return computed_once(tensor + row * pitch + offset);
}

// A unit of weight and bias as they lie, where they are of x's type.
template <bool kCentered, class T, int kBytes>
struct Columns {
  static constexpr int kCount = Unit<T, kBytes>::kCount;
  Unit<T, kBytes> weight, bias;

  __device__ __forceinline__ void load(const Params& p, u32 column) {
    load_one(p.weight, p.weight_kind, column, weight);
    if constexpr (kCentered) load_one(p.bias, p.bias_kind, column, bias);
  }

 private:
  __device__ __forceinline__ void load_one(const char* data, int kind, u32 column, Unit<T, kBytes>& unit) {
    if (kind != KW_WEIGHT_LIKE_X) return;
    kw::load<kBytes>(data + column / kCount * kBytes, unit.word);
  }
};

// Calls use(i, value) with each of the unit of weight or bias that begins at `column`; `like_x` is that unit where it
// is of x's type. Not at all where there is none.
template <class T, int kBytes, class Use>
__device__ __forceinline__ void each_of(const char* data, int kind, u32 column, const Unit<T, kBytes>& like_x,
                                        Use use) {
  constexpr int kCount = Unit<T, kBytes>::kCount;
  if (kind == KW_WEIGHT_LIKE_X) {
    float value[kCount];
    like_x.unpack(value);
#pragma unroll
    for (int i = 0; i < kCount; ++i) use(i, value[i]);
  } else if (T::kSize < 4 && kind == KW_WEIGHT_FLOAT32) {
    constexpr int kPiece = kBytes == 16 ? 16 : 4, kStep = kPiece / 4;
#pragma unroll
    for (int i = 0; i < kCount; i += kStep) {
      Unit<Float32, kPiece> unit;
      load<kPiece>(data + (column + i) * 4, unit.word);
#pragma unroll
      for (int j = 0; j < kStep; ++j) use(i + j, float_of_bits(unit.word[j]));
    }
  }
}

// Weight and bias are applied where they were read, not carried out of the branch: that takes fewer registers.
template <bool kCentered, class T, int kBytes, int kCount>
__device__ __forceinline__ void normalise(const Params& p, const Statistics& of_row, u32 column,
                                          const Columns<kCentered, T, kBytes>& columns, float (&h)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) h[i] = (kCentered ? h[i] - of_row.mean : h[i]) * of_row.rstd;
  each_of<T, kBytes>(p.weight, p.weight_kind, column, columns.weight, [&](int i, float w) { h[i] *= w; });
  if constexpr (kCentered) {
    each_of<T, kBytes>(p.bias, p.bias_kind, column, columns.bias, [&](int i, float b) { h[i] += b; });
  }
}

// Those of the 16 bytes at `from` that are elements from `first` on, before `end`; zeros for the others. One by one:
// for the ends of rows, around which there may be nothing to read.
template <class T>
__device__ __forceinline__ void load_elements(const char* from, u32 first, u32 end, u32* word) {
  constexpr u32 kSize = T::kSize;
#pragma unroll
  for (int i = 0; i < 4; ++i) word[i] = 0;
#pragma unroll 1
  for (u32 i = 16 / kSize; i-- > 0;) {
    u32 element[1] = {0};
    if (i >= first && i < end) load<kSize>(from + i * kSize, element);
#pragma unroll
    for (int j = 3; j > 0; --j) word[j] = kSize == 4 ? word[j - 1] : word[j] << 16 | word[j - 1] >> 16;
    word[0] = kSize == 4 ? element[0] : word[0] << 16 | element[0];
  }
}

// The same of a store.
template <class T>
__device__ __forceinline__ void store_elements(char* to, u32 first, u32 end, u32 (&word)[4]) {
  constexpr u32 kSize = T::kSize;
#pragma unroll 1
  for (u32 i = 0; i < end; ++i) {
    if (i >= first) store<kSize>(to + i * kSize, word);
#pragma unroll
    for (int j = 0; j < 3; ++j) word[j] = kSize == 4 ? word[j + 1] : word[j] >> 16 | word[j + 1] << 16;
    if (kSize == 2) word[3] >>= 16;
  }
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
