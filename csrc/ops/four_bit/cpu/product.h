// SPDX-License-Identifier: MIT
// What the two products share: rows of x as float32, groups of rows of the weight, the way to y. Included by
// matmul_4bit.cpp alone.
#pragma once

#include "ops/four_bit/cpu/four_bit.h"

namespace kw::cpu {

constexpr int kWeightRows = 4;     // that one body call computes together
constexpr int64_t kMostRows = 64;  // of x at a time; so many bound the scratch memory
constexpr int64_t kPitchStep = 128;
constexpr int64_t kSmallestBlock = 32;

// A multiple of every set's chunk.
inline int64_t pitch_of(int64_t k) { return (k + kPitchStep - 1) / kPitchStep * kPitchStep; }

// At most kMostRows rows of x, and their place in y.
struct Product {
  Matmul4bit a;
  float* x;  // in float32, a.m rows of `pitch`, 0 from k on; in the order of chunks for the product of few
  int64_t pitch;
  int* odd;  // becomes 1 where the matrix unit would be wrong
};

// --- by the matrix unit (tiles.h), from so many rows of x on

constexpr int64_t kFewestTiled = 5;
constexpr int kTileRows = 16;          // of the weight and of x in a tile
constexpr int64_t kTileMultiple = 32;  // what k must be one of: then 32 elements of a row lie in one block

inline int64_t tile_groups(int64_t m) { return (m + kTileRows - 1) / kTileRows; }

namespace KW_ISA {
namespace {

inline bool few_of_more(const Matmul4bit& a) { return a.m >= kMoreRows || a.k % Chunks::kSize != 0; }

inline bool few(const Matmul4bit& a) {
  return a.m <= kFewRows && a.k % (few_of_more(a) ? MoreChunks::kSize : Chunks::kSize) == 0;
}

template <class T>
void widen(const T* x, float* wide, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(wide + i, load(x + i));
  if (i < count) store_part(wide + i, load_part(x + i, count - i), count - i);
}

// Whether the product of many takes x in the order of chunks too.
inline bool in_chunks(const Matmul4bit& a) { return MoreChunks::kScaleFirst && a.k % MoreChunks::kSize == 0; }

#ifndef KW_FOUR_BIT_PUT_IN_CHUNKS
template <class Chunk>
void put_in_chunks(const float* elements, float* to) {
  for (int at = 0; at < Chunk::kSize; ++at) to[at] = elements[Chunk::element_at(at)];
}
#endif

template <class Chunk, class T>
void widen_chunks(const T* x, float* wide, int64_t count) {
  for (int64_t i = 0; i < count; i += Chunk::kSize) {
    float chunk[Chunk::kSize];
    widen(x + i, chunk, Chunk::kSize);
    put_in_chunks<Chunk>(chunk, wide + i);
  }
}

template <class T>
void widen_rows(const Product& p, int64_t row, int64_t end) {
  for (; row < end; ++row) {
    const T* x = static_cast<const T*>(p.a.x) + row * p.a.x_stride;
    float* out = p.x + row * p.pitch;
    if (few(p.a) && !few_of_more(p.a)) {
      widen_chunks<Chunks>(x, out, p.a.k);
    } else if (few(p.a) || in_chunks(p.a)) {
      widen_chunks<MoreChunks>(x, out, p.a.k);
    } else {
      widen(x, out, p.a.k);
      memset(out + p.a.k, 0, static_cast<size_t>(p.pitch - p.a.k) * sizeof(float));
    }
  }
}

template <class T>
void finish_as(const Matmul4bit& a, int64_t m, int64_t row, const float* sums, int rows) {
  const auto* bias = static_cast<const T*>(a.bias);
  Vec v = load_part(sums, rows);
  if (bias != nullptr) v = add(v, load_part(bias + row, rows));
  store_part(static_cast<T*>(a.y) + m * a.y_stride + row, v, rows);
}

// Sums of `rows` rows of the weight, from `row` on, with row m of x.
inline void finish(const Matmul4bit& a, int64_t m, int64_t row, const float* sums, int rows) {
  if (a.dtype == KW_FLOAT32) return finish_as<float>(a, m, row, sums, rows);
  if (a.dtype == KW_FLOAT16) return finish_as<Half>(a, m, row, sums, rows);
  return finish_as<BFloat16>(a, m, row, sums, rows);
}

}  // namespace
}  // namespace KW_ISA
}  // namespace kw::cpu
