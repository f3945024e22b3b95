// SPDX-License-Identifier: MIT
// What the warps of a block found becomes one result: the rows of the output, or this split's part of them.
#pragma once

#include "device/ptx/logarithm.cuh"
#include "ops/attention/device/decode_rows.cuh"
#include "ops/attention/device/forward.cuh"

namespace kw {

#ifdef KW_HAS_BF16_MMA

// Of a row of a batch's head: its number among all.
__device__ __forceinline__ i64 row_number(const KwDecodeParams& p, int batch, int head, int query) {
  return (static_cast<i64>(batch) * p.heads + head) * p.queries + query;
}

__device__ __forceinline__ int sum_pitch(const KwDecodeParams& p) { return (p.d_v + 3) / 4 * 4; }

__device__ __forceinline__ void put_lse(const KwDecodeParams& p, int batch, int head, int query, float most,
                                        float sum) {
  constexpr float kLn2 = 0.6931471805599453f;
  if (p.lse == nullptr) return;
  const float lse = sum == 0.0f ? float_of_bits(0xff800000u) : (most + log2_approx(sum)) * kLn2;
  p.lse[batch * p.lse_batch + head * p.lse_head + query] = lse;
}

// Four elements of a row of the output.
template <class T>
__device__ __forceinline__ void put_four(const KwDecodeParams& p, char* row, int column, const float (&value)[4]) {
  const u32 word[2] = {T::pack(value[0], value[1]), T::pack(value[2], value[3])};
  if (p.out_vectors != 0) {
    if (column < p.d_v) store<8>(row + column * 2, word);
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const u32 half[1] = {word[i / 2] >> (i % 2 * 16) & 0xffffu};
    if (column + i < p.d_v) store<2>(row + (column + i) * 2, half);
  }
}

template <class T, u32 kD>
struct DecodeEnd {
  static constexpr u32 kWarps = KW_DECODE_WARPS(kD), kThreads = kWarps * 32, kPitch = kD + 8, kWide = kD / 8;

  const KwDecodeParams& p;
  const DecodeCoordinates& at;
  u32 room, lane, warp;

  __device__ __forceinline__ DecodeEnd(const KwDecodeParams& p, const DecodeCoordinates& at, u32 room, u32 lane,
                                       u32 warp)
      : p(p), at(at), room(room), lane(lane), warp(warp) {}

  __device__ __forceinline__ u32 state_at(u32 of_warp, u32 row) const {
    return room + (kWarps * KW_DECODE_ROWS * kPitch) * 4 + (of_warp * KW_DECODE_ROWS + row) * 8;
  }
  __device__ __forceinline__ u32 sums_at(u32 of_warp, u32 row, u32 column) const {
    return room + ((of_warp * KW_DECODE_ROWS + row) * kPitch + column) * 4;
  }

  __device__ __forceinline__ void finish(const float (&o)[kWide * 4], const RowState (&row)[2],
                                         float multiplier) const {
    const float none = float_of_bits(0xff800000u);
    __syncthreads();  // no warp looks at keys any more
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
      float sum = row[half].sum;
      sum += shuffle_xor(sum, 1);
      sum += shuffle_xor(sum, 2);
      const float most = row[half].most == none ? none : row[half].most * multiplier;
      const u32 state[2] = {bits_of_float(most), bits_of_float(sum)};
      if (lane % 4 == 0) store_shared<8>(state_at(warp, lane / 4 + half * 8), state);
#pragma unroll
      for (u32 n = 0; n < kWide; ++n) {
        const u32 pair[2] = {bits_of_float(o[n * 4 + half * 2]), bits_of_float(o[n * 4 + half * 2 + 1])};
        store_shared<8>(sums_at(warp, lane / 4 + half * 8, n * 8 + lane % 4 * 2), pair);
      }
    }
    __syncthreads();
#pragma unroll 1
    for (u32 i = threadIdx.x; i < KW_DECODE_ROWS * (kD / 4); i += kThreads) put(i / (kD / 4), i % (kD / 4) * 4);
  }

  // Four elements of a row, of all warps.
  __device__ __forceinline__ void put(u32 row, u32 column) const {
    const float none = float_of_bits(0xff800000u);
    const DecodeRow mine(p, at, static_cast<int>(row));
    if (!mine.there || static_cast<int>(column) >= p.d_v) return;
    float most = none, sum = 0.0f, value[4] = {};
    u32 state[kWarps][2];
#pragma unroll
    for (u32 w = 0; w < kWarps; ++w) {
      load_shared<8>(state_at(w, row), state[w]);
      most = fmaxf(most, float_of_bits(state[w][0]));
    }
    const float base = most == none ? 0.0f : most;
#pragma unroll
    for (u32 w = 0; w < kWarps; ++w) {
      const float share = exp2_approx(float_of_bits(state[w][0]) - base);
      u32 word[4];
      load_shared(sums_at(w, row, column), word);
      sum = fmaf(float_of_bits(state[w][1]), share, sum);
#pragma unroll
      for (int i = 0; i < 4; ++i) value[i] = fmaf(float_of_bits(word[i]), share, value[i]);
    }
    p.splits == 1 ? put_result(mine, column, value, most, sum) : put_part(mine, column, value, most, sum);
  }

  __device__ __forceinline__ void put_result(const DecodeRow& mine, u32 column, float (&value)[4], float most,
                                             float sum) const {
    const float share = sum == 0.0f ? 0.0f : reciprocal_approx(sum);
#pragma unroll
    for (int i = 0; i < 4; ++i) value[i] *= share;
    put_four<T>(p, head_of(p.out, at.batch, mine.head, mine.query), static_cast<int>(column), value);
    if (column == 0) put_lse(p, at.batch, mine.head, mine.query, most, sum);
  }

  __device__ __forceinline__ void put_part(const DecodeRow& mine, u32 column, const float (&value)[4], float most,
                                           float sum) const {
    const i64 rows = static_cast<i64>(p.batch) * p.heads * p.queries;
    const i64 number = at.split * rows + row_number(p, at.batch, mine.head, mine.query);
    const u32 word[4] = {bits_of_float(value[0]), bits_of_float(value[1]), bits_of_float(value[2]),
                         bits_of_float(value[3])};
    store_to_read(p.sums + number * sum_pitch(p) + column, word);
    const u32 state[2] = {bits_of_float(most), bits_of_float(sum)};
    if (column == 0) store<8>(p.states + number * 2, state);
  }
};

// One row of the output from the parts of all splits: each warp adds up some of them.
template <class T>
struct DecodeMerge {
  static constexpr u32 kWarps = KW_DECODE_MERGE_THREADS / 32, kColumns = KW_ATTENTION_LARGE;

  const KwDecodeParams& p;
  u32 room, lane, warp;
  i64 rows, number;

  __device__ __forceinline__ explicit DecodeMerge(const KwDecodeParams& p)
      : p(p),
        room(shared_address(attention_shared())),
        lane(threadIdx.x % 32),
        warp(threadIdx.x / 32),
        rows(static_cast<i64>(p.batch) * p.heads * p.queries),
        number(blockIdx.x) {}

  // Of up to 32 splits from `first` on, one a lane: the largest score and the sum, nothing where there is none.
  __device__ __forceinline__ void state_of(u32 first, float& most, float& sum) const {
    most = float_of_bits(0xff800000u), sum = 0.0f;
    if (first + lane >= static_cast<u32>(p.splits)) return;
    u32 word[2];
    load<8>(p.states + ((first + lane) * rows + number) * 2, word);
    most = float_of_bits(word[0]), sum = float_of_bits(word[1]);
  }

  __device__ __forceinline__ float largest() const {
    float found = float_of_bits(0xff800000u), most, sum;
#pragma unroll 1
    for (u32 first = 0; first < static_cast<u32>(p.splits); first += 32) {
      state_of(first, most, sum);
      found = fmaxf(found, most);
    }
#pragma unroll
    for (u32 i = 16; i > 0; i /= 2) found = fmaxf(found, shuffle_xor(found, i));
    return found;
  }

  // This warp's splits; what shares are is known before the sums come, so that none waits for another.
  __device__ __forceinline__ void add(float base, float& total, float (&value)[8]) const {
    const float* const sums = p.sums + number * sum_pitch(p);
    const i64 pitch = rows * sum_pitch(p);
#pragma unroll 1
    for (u32 first = 0; first < static_cast<u32>(p.splits); first += 32) {
      float most, sum;
      state_of(first, most, sum);
      const float mine = sum == 0.0f ? 0.0f : exp2_approx(most - base);
      total += sum * mine;
#pragma unroll
      for (u32 i = 0; i < 32 / kWarps; ++i) {
        const u32 of = i * kWarps + warp;
        const float share = shuffle_from(mine, of);
        if (first + of >= static_cast<u32>(p.splits)) continue;
        add_one(sums + (first + of) * pitch, share, value);
      }
    }
  }

  // Where the share is 0 nothing may have been written.
  __device__ __forceinline__ void add_one(const float* sums, float share, float (&value)[8]) const {
#pragma unroll
    for (u32 j = 0; j < 2; ++j) {
      const u32 column = j * 128 + lane * 4;
      if (static_cast<int>(column) >= p.d_v) continue;
      u32 word[4];
      load<16>(sums + column, word);
#pragma unroll
      for (u32 i = 0; i < 4; ++i) {
        const float found = share == 0.0f ? 0.0f : float_of_bits(word[i]);
        value[j * 4 + i] = fmaf(found, share, value[j * 4 + i]);
      }
    }
  }

  __device__ __forceinline__ void run() const {
    wait_for_previous_kernel();
    allow_next_kernel();
    const float most = largest(), base = most == float_of_bits(0xff800000u) ? 0.0f : most;
    float total = 0.0f, value[8] = {};
    add(base, total, value);
#pragma unroll
    for (u32 j = 0; j < 2; ++j) {
      const u32 word[4] = {bits_of_float(value[j * 4]), bits_of_float(value[j * 4 + 1]),
                           bits_of_float(value[j * 4 + 2]), bits_of_float(value[j * 4 + 3])};
      store_shared(room + (warp * kColumns + j * 128 + lane * 4) * 4, word);
    }
#pragma unroll
    for (u32 i = 16; i > 0; i /= 2) total += shuffle_xor(total, i);  // each warp has the states of all splits
    __syncthreads();
    finish(most, total);
  }

  __device__ __forceinline__ void finish(float most, float sum) const {
    const int column = static_cast<int>(threadIdx.x * 4);
    if (column >= p.d_v) return;
    float value[4] = {};
#pragma unroll
    for (u32 w = 0; w < kWarps; ++w) {
      u32 word[4];
      load_shared(room + (w * kColumns + threadIdx.x * 4) * 4, word);
#pragma unroll
      for (int i = 0; i < 4; ++i) value[i] += float_of_bits(word[i]);
    }
    const float share = sum == 0.0f ? 0.0f : reciprocal_approx(sum);
#pragma unroll
    for (int i = 0; i < 4; ++i) value[i] *= share;
    const int query = static_cast<int>(number % p.queries), head = static_cast<int>(number / p.queries % p.heads);
    const int batch = static_cast<int>(number / p.queries / p.heads);
    put_four<T>(p, head_of(p.out, batch, head, query), column, value);
    if (column == 0) put_lse(p, batch, head, query, most, sum);
  }
};

#endif

}  // namespace kw
