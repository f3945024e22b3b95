// SPDX-License-Identifier: MIT
// Narrow rows without gaps between them, of any width and wherever they begin: a block brings several as one run of
// vectors into shared memory, where lanes find their row's elements wherever they lie, and the results leave in the
// same way.
#pragma once

#include "device/ptx/shared.cuh"
#include "ops/norm/device/common.cuh"

namespace kw {

constexpr u32 kStagedThreads = 256;
constexpr u32 kStagedBytes = kStagedThreads * kSlots * 16;  // of a run in shared memory
constexpr u32 kStagedCols = 512;                            // at most

// What a block keeps between reading and writing: sums of two numbers are float32 and not rounded yet.
template <class T, bool kAdd>
struct KeptAs {
  using Type = T;
};

template <class T>
struct KeptAs<T, true> {
  using Type = Float32;
};

template <bool kCentered>
struct alignas(16) StagedScratch {
  u32 run[kStagedBytes / 4 + 8];  // with room for a vector before and after
  float weight[kStagedCols];
  float bias[kCentered ? kStagedCols : 1];
};

// The rows of a block. They are dense, so in each tensor they are one run.
template <class T>
struct Run {
  i64 first_row, offset, left;  // bytes to the first row, and from there to the tensor's end
  u32 rows, elements;

  __device__ __forceinline__ explicit Run(const Params& p) {
    first_row = static_cast<i64>(blockIdx.x) * p.rows_a_block;
    rows = p.rows - first_row < p.rows_a_block ? static_cast<u32>(p.rows - first_row) : p.rows_a_block;
    elements = rows * p.cols;
    offset = first_row * p.cols * T::kSize;
    left = (p.rows - first_row) * p.cols * T::kSize;
  }
};

// A run as aligned vectors of its tensor: the first may begin before the run, by `head` elements, the last end after
// it.
template <class T, class P>
struct Vectors {
  using Vector = Unit<T, 16>;
  static constexpr u32 kCount = Vector::kCount;
  P* first;
  u32 head, end, count;  // head and end in elements from `first`

  __device__ __forceinline__ Vectors(P* run, u32 elements) {
    const u32 off = static_cast<u32>(reinterpret_cast<u64>(run)) & 15u;
    first = computed_once(run - off);
    head = off / T::kSize;
    end = head + elements;
    count = (end + kCount - 1) / kCount;
  }

  __device__ __forceinline__ void store(u32 number, const Vector& vector) const {
    const u32 begin = number * kCount;
    if (begin >= head && begin + kCount <= end) return kw::store<16>(first + number * 16, vector.word);
    float value[kCount];
    vector.unpack(value);
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) {
      const float element[1] = {value[i]};
      if (begin + i >= head && begin + i < end) store_unit<T, T::kSize>(first + number * 16 + i * T::kSize, element);
    }
  }
};

// kBytes in shared memory at a time; the elements are `stride` pieces apart from lane to lane's next.
template <bool kCentered, class Kept, int kBytes>
__device__ __forceinline__ void staged_rows(const Params& p, const u32 run, i64 first_row, u32 rows,
                                            const StagedScratch<kCentered>& scratch) {
  using Piece = Unit<Kept, kBytes>;
  constexpr u32 kCount = Piece::kCount;
  const u32 cols = p.cols, group = p.group, lane = threadIdx.x % group, side = kStagedThreads / group;
  const u32 weights = shared_address(scratch.weight), biases = shared_address(scratch.bias);
  for (u32 base = 0; base < rows; base += side) {
    const u32 row = base + threadIdx.x / group, at = run + row * cols * Kept::kSize;
    const u32 end = row < rows ? cols : 0;
    Tally<kCentered> tally;
    if (kCentered && lane * kCount < end) {
      Piece piece;
      load_shared<kBytes>(at + lane * kCount * Kept::kSize, piece.word);
      float h[kCount];
      piece.unpack(h);
      tally.begin_alone(h);
    }
#pragma unroll 4
    for (u32 column = lane * kCount; column < end; column += group * kCount) {
      Piece piece;
      load_shared<kBytes>(at + column * Kept::kSize, piece.word);
      float h[kCount];
      piece.unpack(h);
      tally.take(h);
    }
    const Statistics of_row = tally.of_lanes(p, group);
    if (lane == 0 && row < rows) store_statistics<kCentered>(p, first_row + row, of_row);
#pragma unroll 4
    for (u32 column = lane * kCount; column < end; column += group * kCount) {
      Piece piece;
      load_shared<kBytes>(at + column * Kept::kSize, piece.word);
      float h[kCount];
      piece.unpack(h);
      u32 weight[kCount], bias[kCount];
      load_shared<kCount * 4>(weights + column * 4, weight);
      if constexpr (kCentered) load_shared<kCount * 4>(biases + column * 4, bias);
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) {
        h[i] = (kCentered ? h[i] - of_row.mean : h[i]) * of_row.rstd * float_of_bits(weight[i]);
        if constexpr (kCentered) h[i] += float_of_bits(bias[i]);
      }
      piece.pack(h);
      store_shared<kBytes>(at + column * Kept::kSize, piece.word);
    }
  }
}

template <class T, bool kCentered>
__device__ __forceinline__ void staged_columns(const Params& p, StagedScratch<kCentered>& scratch) {
  for (u32 column = threadIdx.x; column < p.cols; column += kStagedThreads) {
    Columns<kCentered, T, T::kSize> columns;
    columns.load(p, column);
    float weight = 1.0f, bias = 0.0f;
    each_of<T, T::kSize, false>(p.weight, p.weight_kind, column, columns.weight, [&](int, float w) { weight = w; });
    scratch.weight[column] = weight;
    if constexpr (kCentered) {
      each_of<T, T::kSize, false>(p.bias, p.bias_kind, column, columns.bias, [&](int, float b) { bias = b; });
      scratch.bias[column] = bias;
    }
  }
}

// Brings x, or x and residual, into shared memory. These, and the sum, lie alike; y need not.
template <class T, bool kAdd, bool kCentered>
__device__ __forceinline__ u32 staged_read(const Params& p, const Run<T>& run, u32 kept,
                                           StagedScratch<kCentered>& scratch) {
  using Kept = typename KeptAs<T, kAdd>::Type;
  using Vector = Unit<T, 16>;
  constexpr u32 kCount = Vector::kCount;
  constexpr int kTurns = kSlots * T::kSize / Kept::kSize;
  const Vectors<T, const char> x(p.x + run.offset, run.elements);
  const Vectors<T, const char> residual(kAdd ? p.residual + run.offset : nullptr, run.elements);
  const Vectors<T, char> sum(kAdd ? p.sum + run.offset : nullptr, run.elements);
  const u32 reach = x.head * T::kSize + static_cast<u32>(run.left < 2 * kStagedBytes ? run.left : 2 * kStagedBytes);
  // The vectors that lie inside the tensor: the first one may begin before it.
  const u32 whole = x.count * 16 <= reach ? x.count : reach / 16;
  const u32 begin = x.head * T::kSize > run.offset && whole > 0 ? 1 : 0;
  const u64 policy = l2_policy(p.keep);
  Vector in[kTurns], add[kTurns];
#pragma unroll
  for (int i = 0; i < kTurns; ++i) {
    const u32 number = threadIdx.x + i * kStagedThreads;
    in[i].clear(), add[i].clear();
    if (number >= whole) break;
    if (i == 0 && number < begin) continue;
    load_vector(x.first + number * 16, in[i].word, policy);
    if constexpr (kAdd) load_vector(residual.first + number * 16, add[i].word, policy);
  }
  staged_columns<T>(p, scratch);
#pragma unroll
  for (int i = 0; i < kTurns; ++i) {
    const u32 number = threadIdx.x + i * kStagedThreads;
    if (number >= whole) break;
    if (i == 0 && number < begin) continue;
    const u32 to = kept + number * (kCount * Kept::kSize);
    if constexpr (!kAdd) {
      store_shared<16>(to, in[i].word);
    } else {
      float h[kCount], r[kCount];
      in[i].unpack(h);
      add[i].unpack(r);
      add_to(h, r);
      Unit<Float32, kCount * 4> both;
      both.pack(h);
#pragma unroll
      for (u32 j = 0; j < kCount; j += 4) store_shared<16>(to + j * 4, both.word + j);
      in[i].pack(h);
      sum.store(number, in[i]);
    }
  }
  // The tensor's first and last elements, where they are no vector.
  const u32 element = (threadIdx.x < begin * kCount ? 0 : (whole - begin) * kCount) + threadIdx.x;
  if (element >= x.head && element < x.end) {
    Unit<T, T::kSize> one;
    load<T::kSize>(x.first + element * T::kSize, one.word);
    if constexpr (kAdd) {
      float h[1], r[1];
      one.unpack(h);
      load<T::kSize>(residual.first + element * T::kSize, one.word);
      one.unpack(r);
      add_to(h, r);
      const u32 word = bits_of_float(h[0]);
      store_shared<4>(kept + element * 4, &word);
      store_unit<T, T::kSize>(sum.first + element * T::kSize, h);
    } else {
      store_shared<T::kSize>(kept + element * T::kSize, one.word);
    }
  }
  return x.head;
}

template <class T, bool kAdd>
__device__ __forceinline__ void staged_write(const Params& p, const Run<T>& run, u32 kept, u32 head) {
  using Kept = typename KeptAs<T, kAdd>::Type;
  using Vector = Unit<T, 16>;
  constexpr u32 kCount = Vector::kCount;
  const Vectors<T, char> y(p.y + run.offset, run.elements);
  const u32 moved = (head - y.head) * Kept::kSize, off = moved & 15u;  // between where x and y have an element
  for (u32 number = threadIdx.x; number < y.count; number += kStagedThreads) {
    const u32 from = kept + number * (kCount * Kept::kSize) + moved - off;
    Vector vector;
    if constexpr (kAdd) {
      Unit<Float32, kCount * 4> whole;
#pragma unroll
      for (u32 j = 0; j < kCount; j += 4) load_shared<16>(from + j * 4, whole.word + j);
      float h[kCount];
      whole.unpack(h);
      vector.pack(h);
    } else {
      u32 low[4], high[4];
      load_shared<16>(from, low);
      if (off != 0) {
        load_shared<16>(from + 16, high);
        realign<T::kSize>(low, high, off, vector.word);
      } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) vector.word[i] = low[i];
      }
    }
    y.store(number, vector);
  }
}

template <bool kCentered, class T, bool kAdd>
__device__ __forceinline__ void norm_staged(const Params& p) {
  using Kept = typename KeptAs<T, kAdd>::Type;
  __shared__ StagedScratch<kCentered> scratch;

  allow_next_kernel();
  wait_for_previous_kernel();
  const Run<T> run(p);
  const u32 kept = shared_address(scratch.run + 4);
  const u32 head = staged_read<T, kAdd>(p, run, kept, scratch);
  __syncthreads();
  const u32 first = kept + head * Kept::kSize;
#ifdef KW_HAS_WGMMA  // where it was measured
  if (((p.cols | head) & 3) == 0) {
    staged_rows<kCentered, Kept, 4 * Kept::kSize>(p, first, run.first_row, run.rows, scratch);
  } else
#endif
      if (T::kSize == 2 && ((p.cols | head) & 1) == 0) {
    staged_rows<kCentered, Kept, 2 * Kept::kSize>(p, first, run.first_row, run.rows, scratch);
  } else {
    staged_rows<kCentered, Kept, Kept::kSize>(p, first, run.first_row, run.rows, scratch);
  }
  __syncthreads();
  staged_write<T, kAdd>(p, run, kept, head);
}

}  // namespace kw
