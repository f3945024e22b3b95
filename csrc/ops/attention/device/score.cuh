// SPDX-License-Identifier: MIT
// From products of queries and keys to scores: softcap, slopes, bias, and which keys a query sees. A warp has 16 rows
// of scores as mma.sync and wgmma leave them: of each 8 columns, lane % 4 * 2 and the next of row lane / 4, then of row
// lane / 4 + 8.
#pragma once

#include "device/element.cuh"
#include "device/ptx/memory.cuh"
#include "ops/attention/device/softmax.cuh"
#include "ops/attention/params.h"

namespace kw {

enum : int { kSeesAll = 0x7fffffff };

// 1 - 2 / (1 + exp(2 x)): exact to 2^-22 of 1.
__device__ __forceinline__ float tanh_of(float x) {
  constexpr float kTwiceLog2E = 2.8853900817779268f;
  return fmaf(-2.0f, reciprocal_approx(1.0f + exp2_approx(kTwiceLog2E * x)), 1.0f);
}

// What belongs to one head of one sequence.
template <class T>
struct Scores {
  const KwScoreParams& p;
  int queries, keys;
  int left, right;   // how far before and behind its position a query sees
  float multiplier;  // of what apply() leaves, for powers of 2
  float slope, capped;
  const char *mask, *bias;
  bool transforms;  // what apply() leaves is a score times log2(e), else a product

  __device__ __forceinline__ Scores(const KwScoreParams& p, int batch, int head, int queries, int keys)
      : p(p), queries(queries), keys(keys) {
    constexpr float kLog2E = 1.4426950408889634f;
    left = p.window_left < 0 ? int{kSeesAll} : p.window_left;
    right = p.window_right < 0 ? int{kSeesAll} : p.window_right;
    slope = p.slopes == nullptr ? 0.0f : p.slopes[batch * p.slopes_batch + head * p.slopes_head];
    mask = p.mask.data == nullptr ? nullptr : p.mask.data + batch * p.mask.batch + head * p.mask.head;
    bias = p.bias.data == nullptr ? nullptr : p.bias.data + batch * p.bias.batch + head * p.bias.head;
    // Products are compared as they are, so their factor must be positive.
    capped = p.softcap == 0.0f ? 0.0f : 1.0f / p.softcap;
    transforms = p.softcap != 0.0f || p.slopes != nullptr || p.bias.data != nullptr || !(p.scale > 1e-20f);
    multiplier = transforms ? 1.0f : p.scale * kLog2E;
  }

  __device__ __forceinline__ int position(int row) const { return row + keys - queries; }

  // The keys that rows first to last see: from the one to before the other.
  __device__ __forceinline__ int first_key(int first) const {
    const int at = left == kSeesAll ? 0 : position(first) - left;
    return at > 0 ? at : 0;
  }
  __device__ __forceinline__ int end_key(int last) const {
    const int end = right == kSeesAll ? keys : position(last) + 1 + right;
    return end < keys ? end : keys;
  }

  // Whether all of these rows see all of these keys.
  __device__ __forceinline__ bool sees_all(int first, int last, int key, int end) const {
    if (end > keys) return false;
    return (right == kSeesAll || end - 1 <= position(first) + right) &&
           (left == kSeesAll || key >= position(last) - left);
  }

  // The queries that see a key: from the one to before the other.
  __device__ __forceinline__ int first_query(int key) const {
    const int at = right == kSeesAll ? 0 : key - right - (keys - queries);
    return at > 0 ? at : 0;
  }
  __device__ __forceinline__ int end_query(int key) const {
    const int end = left == kSeesAll ? queries : key + left + 1 - (keys - queries);
    return key >= keys ? 0 : end < queries ? end : queries;
  }

  // A product becomes a score in units of 2. `steep`: the score's derivative by it, but for the scale.
  __device__ __forceinline__ float transformed(float v, int row, int key, float* steep) const {
    constexpr float kLog2E = 1.4426950408889634f;
    v *= p.scale;
    *steep = 1.0f;
    if (p.softcap != 0.0f) {
      const float share = tanh_of(v * capped);
      v = p.softcap * share;
      *steep = fmaf(-share, share, 1.0f);
    }
    if (p.slopes != nullptr) {
      const int behind = key - position(row);
      v = fmaf(slope, -static_cast<float>(behind < 0 ? -behind : behind), v);
    }
    if (bias != nullptr && row < queries && key < keys) v += bias_at(row, key);
    return v * kLog2E;
  }

  __device__ __forceinline__ float bias_at(int row, int key) const {
    const char* const at = bias + row * p.bias.row + key * p.bias.column;
    u32 word[1];
    if (p.bias_is_float) {
      load<4>(at, word);
      return float_of_bits(word[0]);
    }
    load<2>(at, word);
    return T::low(word[0]);
  }

  __device__ __forceinline__ bool masked(int row, int key) const {
    if (row >= queries || key >= keys) return true;
    u32 byte[1];
    load<1>(mask + row * p.mask.row + key * p.mask.column, byte);
    return byte[0] == 0;
  }

  // All that is asked for in memory or by functions, of kTall times 16 rows; `row`, `key`: the lane's first. Eight
  // scores at a time, which then go to the end, so that the code is there once.
  template <u32 kTall, u32 kCount>
  __device__ __forceinline__ void transform(float (&s)[kTall][kCount], int row, int key) const {
#pragma unroll 1
    for (u32 i = 0; i < kTall * kCount / 8; ++i) {
      float mine[8], steep;
#pragma unroll
      for (u32 j = 0; j < 8; ++j) {
        const int r = row + static_cast<int>(i / (kCount / 8) * 16 + j / 2 % 2 * 8);
        const int c = key + static_cast<int>(i % (kCount / 8) * 16 + j / 4 * 8 + j % 2);
        mine[j] = transforms ? transformed(s[0][j], r, c, &steep) : s[0][j];
        if (mask != nullptr && masked(r, c)) mine[j] = minus_infinity();
      }
      rotate(s, mine);
    }
  }

  // The same in a backward pass, of 16 rows: the scores' derivatives so far, `by`, become the products'. Of kKeyRows
  // rows are keys and columns queries.
  template <bool kKeyRows, u32 kCount>
  __device__ __forceinline__ void transform(float (&s)[1][kCount], float (&by)[1][kCount], int row, int column) const {
#pragma unroll 1
    for (u32 i = 0; i < kCount / 8; ++i) {
      float mine[8], ours[8];
#pragma unroll
      for (u32 j = 0; j < 8; ++j) {
        const int r = row + static_cast<int>(j / 2 % 2 * 8), c = column + static_cast<int>(i * 16 + j / 4 * 8 + j % 2);
        const int query = kKeyRows ? c : r, key = kKeyRows ? r : c;
        float steep = 1.0f;
        mine[j] = transforms ? transformed(s[0][j], query, key, &steep) : s[0][j];
        if (mask != nullptr && masked(query, key)) mine[j] = minus_infinity();
        ours[j] = by[0][j] * steep;
      }
      rotate(s, mine);
      rotate(by, ours);
    }
  }

  // The first eight leave, others are the last.
  template <u32 kTall, u32 kCount>
  static __device__ __forceinline__ void rotate(float (&s)[kTall][kCount], const float (&last)[8]) {
#pragma unroll
    for (u32 j = 0; j < kTall * kCount - 8; ++j) s[j / kCount][j % kCount] = s[(j + 8) / kCount][(j + 8) % kCount];
#pragma unroll
    for (u32 j = 0; j < 8; ++j) s[kTall - 1][kCount - 8 + j] = last[j];
  }

  // Minus infinity where a query and a key are too far apart, or one of them is not there. Of kKeyRows as above.
  template <bool kKeyRows = false, u32 kCount>
  __device__ __forceinline__ void hide(float (&s)[kCount], int row, int column) const {
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
      const int at = row + static_cast<int>(half * 8);
      const int begin = (kKeyRows ? first_query(at) : first_key(at)) - column;
      const int end = (kKeyRows ? end_query(at) : end_key(at)) - column;
#pragma unroll
      for (u32 i = 0; i < kCount / 2; ++i) {
        const int far = static_cast<int>(i / 2 * 8 + i % 2);
        float& value = s[i / 2 * 4 + half * 2 + i % 2];
        if (far < begin || far >= end) value = minus_infinity();
      }
    }
  }
};

}  // namespace kw
