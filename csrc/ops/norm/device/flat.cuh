// SPDX-License-Identifier: MIT
// RMS norm of narrow rows without gaps between them, of any width from a unit on: a block reads several as one run of
// whole units. A unit holds elements of at most two rows; the two sums of squares of each go through shared memory.
#pragma once

#include "ops/norm/device/common.cuh"

namespace kw {

constexpr u32 kFlatThreads = 256;
constexpr u32 kFlatUnits = kFlatThreads * kSlots;
constexpr u32 kFlatCols = 512;  // at most; at least a unit's elements

template <int kCount>
struct FlatScratch {
  float2 part[kFlatUnits];     // of each unit: the squares of its first row, and of its second
  float rstd[kFlatUnits + 1];  // of each row; a row is no shorter than a unit
  float weight[(kFlatCols + kCount) / kCount * (kCount + 1)];
};

// One float of padding after each unit keeps the lanes of a warp, a unit apart, in different banks.
template <u32 kCount>
__device__ __forceinline__ u32 padded(u32 column) {
  return column + column / kCount;
}

// Moves the `left` elements from or to a unit of the run; only the last unit of all has fewer than kCount.
template <class T, int kCount>
__device__ __forceinline__ void load_some(const char* from, u32 left, u64 policy, Unit<T, 16>& unit) {
  if (left >= kCount) return load_vector(from, unit.word, policy);
  float value[kCount] = {};
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (i >= left) break;
    Unit<T, T::kSize> element;
    load<T::kSize>(from + i * T::kSize, element.word);
    element.unpack(value + i);
  }
  unit.pack(value);
}

template <class T, int kCount>
__device__ __forceinline__ void store_some(char* to, u32 left, const float (&value)[kCount]) {
  if (left >= kCount) return store_unit<T, 16>(to, value);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (i >= left) break;
    const float element[1] = {value[i]};
    store_unit<T, T::kSize>(to + i * T::kSize, element);
  }
}

// 1 / rms of each row: `group` lanes add the parts of its units.
template <class T, int kCount>
__device__ __forceinline__ void flat_rstd(const Params& p, i64 first_row, u32 rows, FlatScratch<kCount>& scratch) {
  const u32 group = p.group, lane = threadIdx.x % group, side = kFlatThreads / group;
  for (u32 base = 0; base < rows; base += side) {
    const u32 row = base + threadIdx.x / group;
    float sum = 0.0f;
    if (row < rows) {
      const u32 begin = row * p.cols, last = (begin + p.cols - 1) / kCount;
      for (u32 unit = begin / kCount + lane; unit <= last; unit += group) {
        const float2 part = scratch.part[unit];
        sum += unit * kCount < begin ? part.y : part.x;
      }
    }
    for (u32 mask = group / 2; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
    if (lane != 0 || row >= rows) continue;
    const float rstd = rsqrt_approx(fmaf(sum, p.inverse_cols, p.eps));
    scratch.rstd[row] = rstd;
    if (p.rstd != nullptr) p.rstd[first_row + row] = rstd;
  }
}

template <class T, bool kAdd>
__device__ __forceinline__ void norm_flat(const Params& p) {
  using Vector = Unit<T, 16>;
  constexpr int kCount = Vector::kCount;
  __shared__ __align__(16) FlatScratch<kCount> scratch;

  allow_next_kernel();
  wait_for_previous_kernel();
  const u32 cols = p.cols;
  const i64 first_row = static_cast<i64>(blockIdx.x) * p.rows_a_block;
  const u32 rows = p.rows - first_row < p.rows_a_block ? static_cast<u32>(p.rows - first_row) : p.rows_a_block;
  const u32 elements = rows * cols;
  const i64 offset = first_row * cols * T::kSize + threadIdx.x * 16;
  auto element = [&](int slot) { return (threadIdx.x + slot * kFlatThreads) * kCount; };
  auto at = [&](int slot) { return offset + slot * (kFlatThreads * 16); };

  const u64 policy = l2_policy(p.keep);
  Vector in[kSlots], add[kSlots];
#pragma unroll
  for (int s = 0; s < kSlots; ++s) {
    in[s].clear(), add[s].clear();
    if (element(s) >= elements) continue;
    load_some<T, kCount>(p.x + at(s), elements - element(s), policy, in[s]);
    if constexpr (kAdd) load_some<T, kCount>(p.residual + at(s), elements - element(s), policy, add[s]);
  }
  for (u32 column = threadIdx.x; column < cols + kCount; column += kFlatThreads) {
    const u32 wrapped = column < cols ? column : column - cols;
    Columns<false, T, T::kSize> columns;
    columns.load(p, wrapped);
    float weight = 1.0f;
    each_of<T, T::kSize, false>(p.weight, p.weight_kind, wrapped, columns.weight, [&](int, float w) { weight = w; });
    scratch.weight[padded<kCount>(column)] = weight;
  }

  auto unpack = [&](int slot, float (&h)[kCount]) {
    in[slot].unpack(h);
    if constexpr (kAdd) {
      float r[kCount];
      add[slot].unpack(r);
      add_to(h, r);
    }
  };
#pragma unroll
  for (int s = 0; s < kSlots; ++s) {
    if (element(s) >= elements) break;
    float h[kCount];
    unpack(s, h);
    if constexpr (kAdd) store_some<T, kCount>(p.sum + at(s), elements - element(s), h);
    const u32 column = element(s) - __umulhi(element(s), p.cols_magic) * cols;
    float2 part = {0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float square = h[i] * h[i];
      (column + i < cols ? part.x : part.y) += square;
    }
    scratch.part[threadIdx.x + s * kFlatThreads] = part;
  }
  __syncthreads();
  flat_rstd<T, kCount>(p, first_row, rows, scratch);
  __syncthreads();

#pragma unroll
  for (int s = 0; s < kSlots; ++s) {
    if (element(s) >= elements) break;
    const u32 row = __umulhi(element(s), p.cols_magic), column = element(s) - row * cols;
    const float rstd[2] = {scratch.rstd[row], scratch.rstd[row + 1]};
    float h[kCount];
    unpack(s, h);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      h[i] = h[i] * (column + i < cols ? rstd[0] : rstd[1]) * scratch.weight[padded<kCount>(column + i)];
    }
    store_some<T, kCount>(p.y + at(s), elements - element(s), h);
  }
}

}  // namespace kw
