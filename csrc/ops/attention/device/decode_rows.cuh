// SPDX-License-Identifier: MIT
// Rows of attention of few queries on their way: queries into shared memory, new keys and values into the caches, both
// turned by their positions where that is asked for, and keys and values out of the caches.
#pragma once

#include "device/element.cuh"
#include "ops/attention/decode_geometry.h"
#include "ops/attention/device/decode_coordinates.cuh"
#include "ops/attention/device/rows.cuh"
#include "ops/attention/device/turn.cuh"

namespace kw {

template <class T>
__device__ __forceinline__ float element_at(const char* row, int i) {
  u32 half[1];
  load<2>(row + i * 2, half);
  return T::low(half[0]);
}

// Which element is turned together with this one.
__device__ __forceinline__ int partner_of(const KwRope& rope, int i) {
  if (rope.interleaved) return i ^ 1;
  return i >= rope.pairs ? i - rope.pairs : i + rope.pairs;
}

// An element of a row after its turn.
template <class T>
__device__ __forceinline__ float turned(const KwRope& rope, const char* row, int i, int position) {
  const float value = element_at<T>(row, i);
  if (rope.cos == nullptr || i >= rope.pairs * 2) return value;
  const int pair = rope.interleaved ? i / 2 : i < rope.pairs ? i : i - rope.pairs;
  const bool second = rope.interleaved ? i % 2 != 0 : i >= rope.pairs;
  const float other = element_at<T>(row, partner_of(rope, i));
  const i64 at = (position < rope.max_positions ? position : rope.max_positions - 1) * rope.row;
  const float cos = element_at<T>(rope.cos + at, pair), sin = element_at<T>(rope.sin + at, pair);
  return second ? turned_second(other, value, cos, sin) : turned_first(value, other, cos, sin);
}

// The block's queries, zeros where there is none.
template <class T, u32 kChunks, u32 kThreads>
__device__ __forceinline__ void copy_queries(const KwDecodeParams& p, const DecodeCoordinates& at, u32 room) {
#pragma unroll 1
  for (u32 i = threadIdx.x; i < KW_DECODE_ROWS * kChunks; i += kThreads) {
    const u32 row = i / kChunks, chunk = i % kChunks;
    const DecodeRow mine(p, at, static_cast<int>(row));
    const char* const from = head_of(p.q, at.batch, mine.head, mine.query);
    const u32 to = chunk_at<kChunks>(room, row, chunk);
    const int first = static_cast<int>(chunk * 8), rest = mine.there ? p.d - first : 0;
    if (p.q_vectors != 0 && p.rope.cos == nullptr) {
      copy_async(to, rest > 0 ? from + first * 2 : p.q.data, rest > 0 ? 16 : 0);
      continue;
    }
#pragma unroll 1
    for (int j = 0; j < 8; ++j) {
      const float value =
          j < rest ? turned<T>(p.rope, from, first + j, at.before + (p.rope.moves ? mine.query : 0)) : 0.0f;
      const u32 half[1] = {T::pack(value, 0.0f)};
      store_shared<2>(to + j * 2, half);
    }
  }
  copies_commit();
  copies_wait<0>();
}

// The new rows that this block looks at, and, in the last split, those that no block does.
template <class T>
__device__ __forceinline__ void append(const KwDecodeParams& p, const DecodeCoordinates& at, u32 threads) {
  const int widest = p.d > p.d_v ? p.d : p.d_v;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < p.new_rows * widest; i += static_cast<int>(threads)) {
    const int row = i / widest, element = i % widest, key = at.before + row;
    const bool mine = key >= at.begin && key < at.end, anybodys = key >= at.first && key < at.last;
    if (!mine && (anybodys || at.split != p.splits - 1)) continue;
    const char* const k = head_of(p.k_new, at.batch, at.kv_head, row);
    const char* const v = head_of(p.v_new, at.batch, at.kv_head, row);
    if (element < p.d) {
      const u32 half[1] = {T::pack(turned<T>(p.rope, k, element, key), 0.0f)};
      store<2>(p.k.data + at.offset(p, p.k, key) + element * 2, half);
    }
    if (element < p.d_v) {
      u32 half[1];
      load<2>(v + element * 2, half);
      store<2>(p.v.data + at.offset(p, p.v, key) + element * 2, half);
    }
  }
}

__device__ __forceinline__ i64 offset_from(i64 offset, u32 lane) {
  const u32 low = bits_of_float(shuffle_from(float_of_bits(static_cast<u32>(offset)), lane));
  const u32 high = bits_of_float(shuffle_from(float_of_bits(static_cast<u32>(static_cast<u64>(offset) >> 32)), lane));
  return static_cast<i64>(static_cast<u64>(high) << 32 | low);
}

// A warp's copies of rows of one cache, step by step. A lane has one chunk of every kAtOnce-th row.
template <u32 kChunks>
struct RowCopies {
  static constexpr u32 kAtOnce = 32 / kChunks, kTimes = KW_DECODE_KEYS / kAtOnce;

  const KwHeads& cache;
  const char* from;  // the lane's chunk of the warp's first row, in a cache that is no pages
  u32 row, chunk;
  int d;
  bool there;  // the chunk is one of a row

  __device__ __forceinline__ RowCopies(const KwDecodeParams& p, const DecodeCoordinates& at, const KwHeads& cache,
                                       int d, int key)
      : cache(cache), row(threadIdx.x % 32 / kChunks), chunk(threadIdx.x % kChunks), d(d) {
    there = static_cast<int>(chunk * 8) < d;
    from = cache.data + chunk * 16;
    if (p.pages == nullptr && key < at.end) from += at.offset(p, cache, key) + row * cache.row;
  }

  // Rows that lie one after the other, of which `left` are there.
  __device__ __forceinline__ void step(u32 room, int left) const {
    const char* at = from;
#pragma unroll
    for (u32 i = 0; i < kTimes; ++i) {
      const bool inside = there && static_cast<int>(i * kAtOnce + row) < left;
      copy_async(chunk_at<kChunks>(room, i * kAtOnce + row, chunk), inside ? at : cache.data, inside ? 16 : 0);
      at += kAtOnce * cache.row;
    }
  }

  // Rows anywhere; lane `first` and those behind it know where.
  __device__ __forceinline__ void step_in_pages(u32 room, int left, i64 offset, u32 first) const {
#pragma unroll
    for (u32 i = 0; i < kTimes; ++i) {
      const i64 at = offset_from(offset, first + i * kAtOnce + row);
      const bool inside = there && static_cast<int>(i * kAtOnce + row) < left;
      copy_async(chunk_at<kChunks>(room, i * kAtOnce + row, chunk), inside ? from + at : cache.data, inside ? 16 : 0);
    }
  }

  // Rows that lie on no 16 bytes, as may be in either kind of cache.
  __device__ __forceinline__ void step_by_elements(const KwDecodeParams& p, const DecodeCoordinates& at, u32 room,
                                                   int key) const {
#pragma unroll 1
    for (u32 i = row; i < KW_DECODE_KEYS; i += kAtOnce) {
      const int mine = key + static_cast<int>(i);
      const int rest = mine < at.end ? d - static_cast<int>(chunk * 8) : 0;
      const i64 offset = mine < at.end ? at.offset(p, cache, mine) : 0;
      copy_elements(chunk_at<kChunks>(room, i, chunk), cache.data + offset + chunk * 16, rest);
    }
  }
};

// Those of keys and of values.
template <u32 kChunks, int kStep>
struct StepCopies {
  const KwDecodeParams& p;
  const DecodeCoordinates& at;
  RowCopies<kChunks> k, v;
  int key;

  __device__ __forceinline__ StepCopies(const KwDecodeParams& p, const DecodeCoordinates& at, int key)
      : p(p), at(at), k(p, at, p.k, p.d, key), v(p, at, p.v, p.d_v, key), key(key) {}

  // The next step's, zeros behind the last key.
  __device__ __forceinline__ void next(u32 room) {
    constexpr u32 kValues = KW_DECODE_KEYS * kChunks * 16;
    const int left = at.end - key;
    if (p.vectors == 0) {
      k.step_by_elements(p, at, room, key);
      v.step_by_elements(p, at, room + kValues, key);
    } else if (p.pages != nullptr) {
      const u32 lane = threadIdx.x % 32;
      const int mine = key + static_cast<int>(lane % 16);
      const i64 offset = mine < at.end ? at.offset(p, lane < 16 ? p.k : p.v, mine) : 0;
      k.step_in_pages(room, left, offset, 0);
      v.step_in_pages(room + kValues, left, offset, 16);
    } else {
      k.step(room, left);
      v.step(room + kValues, left);
      k.from += kStep * p.k.row;
      v.from += kStep * p.v.row;
    }
    key += kStep;
    copies_commit();
  }
};

}  // namespace kw
