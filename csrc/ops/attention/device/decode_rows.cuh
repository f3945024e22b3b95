// SPDX-License-Identifier: MIT
// Rows of attention of few queries on their way: queries into shared memory, new keys and values into the caches, both
// turned by their places where that is asked for, and keys and values out of the caches.
#pragma once

#include "device/element.cuh"
#include "ops/attention/decode_geometry.h"
#include "ops/attention/device/decode_place.cuh"
#include "ops/attention/device/rows.cuh"

namespace kw {

template <class T>
__device__ __forceinline__ float element_at(const char* row, int i) {
  u32 half[1];
  load<2>(row + i * 2, half);
  return T::low(half[0]);
}

// An element of a row after its turn.
template <class T>
__device__ __forceinline__ float turned(const KwRope& rope, const char* row, int i, int place) {
  const float value = element_at<T>(row, i);
  if (rope.cos == nullptr || i >= rope.pairs * 2) return value;
  const int pair = rope.interleaved ? i / 2 : i % rope.pairs;
  const bool second = rope.interleaved ? i % 2 != 0 : i >= rope.pairs;
  const int partner = rope.interleaved ? i ^ 1 : second ? i - rope.pairs : i + rope.pairs;
  const float other = element_at<T>(row, partner);
  place = place < rope.places ? place : rope.places - 1;
  const float cos = element_at<T>(rope.cos + place * rope.row, pair),
              sin = element_at<T>(rope.sin + place * rope.row, pair);
  return second ? fmaf(value, cos, other * sin) : fmaf(value, cos, -other * sin);
}

// The block's queries, zeros where there is none.
template <class T, u32 kChunks, u32 kThreads>
__device__ __forceinline__ void copy_queries(const KwDecodeParams& p, const DecodePlace& at, u32 room) {
#pragma unroll 1
  for (u32 i = threadIdx.x; i < KW_DECODE_ROWS * kChunks; i += kThreads) {
    const u32 row = i / kChunks, chunk = i % kChunks;
    const DecodeRow mine(p, at, static_cast<int>(row));
    const char* const from = head_of(p.q, at.batch, mine.head, mine.query);
    u32 word[4] = {};
    const int rest = mine.there ? p.d - static_cast<int>(chunk * 8) : 0,
              place = at.before + (p.rope.moves ? mine.query : 0);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      if (j >= rest) continue;
      const float value = turned<T>(p.rope, from, static_cast<int>(chunk * 8) + j, place);
      word[j / 2] |= (T::pack(value, 0.0f) & 0xffffu) << (j % 2 * 16);
    }
    store_shared(chunk_at<kChunks>(room, row, chunk), word);
  }
}

// The new rows that this block looks at, and, in the last split, those that no block does.
template <class T>
__device__ __forceinline__ void append(const KwDecodeParams& p, const DecodePlace& at, u32 threads) {
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

// A warp's keys and values from `key` on; zeros from `end` on. Rows in pages lie anywhere: lane i finds row i % 16 of
// keys or of values.
template <u32 kChunks>
__device__ __forceinline__ void copy_step(const KwDecodeParams& p, const DecodePlace& at, u32 room, int key, int end) {
  const u32 lane = threadIdx.x % 32;
  i64 offset = 0;
  if (p.pages != nullptr && key + static_cast<int>(lane % 16) < end)
    offset = at.offset(p, lane < 16 ? p.k : p.v, key + static_cast<int>(lane % 16));
#pragma unroll
  for (u32 which = 0; which < 2; ++which) {
    const KwHeads& cache = which == 0 ? p.k : p.v;
    const int d = which == 0 ? p.d : p.d_v;
    const u32 base = room + which * KW_DECODE_KEYS * kChunks * 16;
    const char* const first = p.pages != nullptr || key >= end ? cache.data : cache.data + at.offset(p, cache, key);
#pragma unroll 4
    for (u32 i = lane; i < KW_DECODE_KEYS * kChunks; i += 32) {
      const u32 row = i / kChunks, chunk = i % kChunks;
      const i64 there = p.pages != nullptr ? offset_from(offset, which * 16 + row) : row * cache.row;
      const int rest = key + static_cast<int>(row) < end ? d - static_cast<int>(chunk * 8) : 0;
      const u32 to = chunk_at<kChunks>(base, row, chunk);
      if (p.vectors != 0) {
        copy_async(to, rest > 0 ? first + there + chunk * 16 : cache.data, rest > 0 ? 16 : 0);
      } else {
        copy_elements(to, first + there + chunk * 16, rest);
      }
    }
  }
  copies_commit();
}

}  // namespace kw
