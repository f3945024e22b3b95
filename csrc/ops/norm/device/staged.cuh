// SPDX-License-Identifier: MIT
// Narrow rows without gaps between them, of any width and wherever they begin: a block brings several as one run of
// vectors into shared memory, as float32, where lanes find their row's elements; the results leave in the same way.
#pragma once

#include "device/ptx/shared.cuh"
#include "ops/norm/device/common.cuh"

namespace kw {

template <bool kCentered, class T>
struct alignas(16) StagedScratch {
  float run[kStagedThreads * kStagedTurns * (16 / T::kSize)];
  float weight[kStagedCols];
  float bias[kCentered ? kStagedCols : 1];
};

// The rows of a block: in each tensor one run of elements, which aligned vectors hold. The first may begin before the
// run, by `head` elements, the last end after it.
template <class T, class P>
struct Run {
  using Vector = Unit<T, 16>;
  static constexpr u32 kCount = Vector::kCount;
  P* vectors;
  u32 head, end;  // in elements from the first vector on

  __device__ __forceinline__ Run(P* tensor, i64 offset, u32 elements) {
    P* run = tensor + offset;
    const u32 off = static_cast<u32>(reinterpret_cast<u64>(run)) & 15u;
    vectors = computed_once(run - off);
    head = off / T::kSize;
    end = head + elements;
  }

  __device__ __forceinline__ u32 count() const { return (end + kCount - 1) / kCount; }
  __device__ __forceinline__ bool is_whole(u32 number) const {
    return number * kCount >= head && (number + 1) * kCount <= end;
  }

  // Which elements of a vector are the run's.
  __device__ __forceinline__ u32 first_of(u32 number) const { return number == 0 ? head : 0; }
  __device__ __forceinline__ u32 end_of(u32 number) const {
    return end - number * kCount < kCount ? end - number * kCount : kCount;
  }

  // Zeros for those that are not.
  __device__ __forceinline__ void load(u32 number, u64 policy, Vector& vector) const {
    if (is_whole(number)) return load_vector(vectors + number * 16, vector.word, policy);
    load_elements<T>(vectors + number * 16, first_of(number), end_of(number), vector.word);
  }

  __device__ __forceinline__ void store(u32 number, const float (&value)[kCount]) const {
    Vector vector;
    vector.pack(value);
    if (is_whole(number)) return kw::store<16>(vectors + number * 16, vector.word);
    store_elements<T>(vectors + number * 16, first_of(number), end_of(number), vector.word);
  }
};

// kCount elements in shared memory at a time.
template <bool kCentered, class T, u32 kCount>
__device__ __forceinline__ void staged_rows(const Params& p, u32 run, i64 first_row, u32 rows,
                                            const StagedScratch<kCentered, T>& scratch) {
  using Piece = Unit<Float32, kCount * 4>;
  const u32 cols = p.cols, group = p.group, lane = threadIdx.x % group, side = kStagedThreads / group;
  const u32 weights = shared_address(scratch.weight), biases = shared_address(scratch.bias);
  for (u32 base = 0; base < rows; base += side) {
    const u32 row = base + threadIdx.x / group, at = run + row * cols * 4, end = row < rows ? cols : 0;
    Tally<kCentered> tally;
    Piece piece;
    float h[kCount];
    if (kCentered && lane * kCount < end) {
      load_shared<kCount * 4>(at + lane * kCount * 4, piece.word);
      piece.unpack(h);
      tally.begin_alone(h);
    }
#pragma unroll 4
    for (u32 column = lane * kCount; column < end; column += group * kCount) {
      load_shared<kCount * 4>(at + column * 4, piece.word);
      piece.unpack(h);
      tally.take(h);
    }
    const Statistics of_row = tally.of_lanes(p, group);
    if (lane == 0 && row < rows) store_statistics<kCentered>(p, first_row + row, of_row);
#pragma unroll 4
    for (u32 column = lane * kCount; column < end; column += group * kCount) {
      Piece weight, bias;
      load_shared<kCount * 4>(at + column * 4, piece.word);
      load_shared<kCount * 4>(weights + column * 4, weight.word);
      if constexpr (kCentered) load_shared<kCount * 4>(biases + column * 4, bias.word);
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) {
        h[i] = float_of_bits(piece.word[i]);
        h[i] = (kCentered ? h[i] - of_row.mean : h[i]) * of_row.rstd * float_of_bits(weight.word[i]);
        if constexpr (kCentered) h[i] += float_of_bits(bias.word[i]);
      }
      piece.pack(h);
      store_shared<kCount * 4>(at + column * 4, piece.word);
    }
  }
}

template <class T, bool kCentered>
__device__ __forceinline__ void staged_columns(const Params& p, StagedScratch<kCentered, T>& scratch) {
#pragma unroll 1
  for (u32 column = threadIdx.x; column < p.cols; column += kStagedThreads) {
    Columns<kCentered, T, T::kSize> columns;
    columns.load(p, column);
    float weight = 1.0f, bias = 0.0f;
    each_of<T, T::kSize>(p.weight, p.weight_kind, column, columns.weight, [&](int, float w) { weight = w; });
    scratch.weight[column] = weight;
    if constexpr (kCentered) {
      each_of<T, T::kSize>(p.bias, p.bias_kind, column, columns.bias, [&](int, float b) { bias = b; });
      scratch.bias[column] = bias;
    }
  }
}

template <u32 kCount>
__device__ __forceinline__ void store_floats(u32 to, const float (&value)[kCount]) {
#pragma unroll
  for (u32 i = 0; i < kCount; i += 4) {
    Unit<Float32, 16> quad;
    quad.pack(value + i);
    store_shared<16>(to + i * 4, quad.word);
  }
}

// x, the residual and the sum begin equally far off 16 bytes; y need not.
template <bool kCentered, class T>
__device__ __forceinline__ void norm_staged(const Params& p) {
  constexpr u32 kCount = 16 / T::kSize, kTurns = kStagedTurns;
  __shared__ StagedScratch<kCentered, T> scratch;

  allow_next_kernel();
  wait_for_previous_kernel();
  const i64 first_row = static_cast<i64>(blockIdx.x) * p.rows_a_block, offset = first_row * p.cols * T::kSize;
  const u32 rows = p.rows - first_row < p.rows_a_block ? static_cast<u32>(p.rows - first_row) : p.rows_a_block;
  const u32 elements = rows * p.cols, run = shared_address(scratch.run);
  const bool adds = p.residual != nullptr;
  const Run<T, const char> x(p.x, offset, elements), residual(p.residual, offset, elements);
  const Run<T, char> sum(p.sum, offset, elements), y(p.y, offset, elements);
  const u64 policy = l2_policy(p.keep);
  Unit<T, 16> in[kTurns], add[kTurns];
#pragma unroll
  for (u32 i = 0; i < kTurns; ++i) {
    const u32 number = threadIdx.x + i * kStagedThreads;
    in[i].clear(), add[i].clear();
    if (number >= x.count()) break;
    x.load(number, policy, in[i]);
    if (adds) residual.load(number, policy, add[i]);
  }
  staged_columns<T>(p, scratch);
#pragma unroll
  for (u32 i = 0; i < kTurns; ++i) {
    const u32 number = threadIdx.x + i * kStagedThreads;
    if (number >= x.count()) break;
    float h[kCount];
    in[i].unpack(h);
    if (adds) {
      float r[kCount];
      add[i].unpack(r);
      add_to(h, r);
      sum.store(number, h);
    }
    store_floats<kCount>(run + number * (kCount * 4), h);
  }
  __syncthreads();
  const u32 first = run + x.head * 4;
  if (((p.cols | x.head) & 3) == 0) {
    staged_rows<kCentered, T, 4>(p, first, first_row, rows, scratch);
  } else {
    staged_rows<kCentered, T, 1>(p, first, first_row, rows, scratch);
  }
  __syncthreads();
#pragma unroll 1
  for (u32 number = threadIdx.x; number < y.count(); number += kStagedThreads) {
    const u32 at = number * kCount + x.head - y.head;  // of the vector's first element in the run, if it is not before
    float value[kCount];
    if (y.is_whole(number) && at % 4 == 0) {
#pragma unroll
      for (u32 i = 0; i < kCount; i += 4) {
        Unit<Float32, 16> quad;
        load_shared<16>(run + (at + i) * 4, quad.word);
        quad.unpack(value + i);
      }
    } else {
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) {
        u32 word[1] = {0};
        if (number * kCount + i >= y.head && number * kCount + i < y.end) load_shared<4>(run + (at + i) * 4, word);
        value[i] = float_of_bits(word[0]);
      }
    }
    y.store(number, value);
  }
}

}  // namespace kw
