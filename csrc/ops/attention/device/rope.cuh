// SPDX-License-Identifier: MIT
// Rope of q and k. A thread has the angles of a few pairs in registers, and turns these pairs of head after head. It
// reads before it writes, and writes where it read: results may take the place of inputs.
#pragma once

#include "device/element.cuh"
#include "device/ptx/memory.cuh"
#include "device/ptx/sync.cuh"
#include "ops/attention/device/turn.cuh"
#include "ops/attention/rope_geometry.h"
#include "ops/attention/rope_params.h"

namespace kw {

// kCount elements of type T, in as few loads as there are.
template <class T, int kCount>
__device__ __forceinline__ void read_table(const char* from, float (&to)[kCount]) {
  constexpr int kBytes = kCount * T::kSize < 16 ? kCount * T::kSize : 16, kEach = kBytes / T::kSize;
#pragma unroll
  for (int i = 0; i < kCount; i += kEach) {
    Unit<T, kBytes> unit;
    load<kBytes>(from + i * T::kSize, unit.word);
    unit.unpack(to + i);
  }
}

template <class T, int kCount>
__device__ __forceinline__ void read_angles(const KwRopeParams& p, u32 batch, int position, int pair,
                                            float (&cos)[kCount], float (&sin)[kCount]) {
  const bool wide = T::kSize == 4 || p.wide != 0;
  const i64 at = static_cast<i64>(pair) * p.step * (wide ? Float32::kSize : T::kSize);
  const char* const from = p.cos.data + batch * p.cos.batch + position * p.cos.row + at;
  const char* const other = p.sin.data + batch * p.sin.batch + position * p.sin.row + at;
  if (wide) {
    read_table<Float32>(from, cos);
    read_table<Float32>(other, sin);
  } else {
    read_table<T>(from, cos);
    read_table<T>(other, sin);
  }
}

// The row of the tables for a row of a sequence; one that is not there is the nearest that is.
__device__ __forceinline__ int rope_position(const KwRopeParams& p, u32 batch, u32 row) {
  i64 position = row;
  if (p.positions != nullptr) {
    u32 word[1];
    load<4>(p.positions + batch * p.positions_batch + row * p.positions_row, word);
    position = static_cast<i64>(static_cast<int>(word[0])) + (p.adds_row != 0 ? row : 0);
  }
  return position < 0 ? 0 : position < p.max_positions ? static_cast<int>(position) : p.max_positions - 1;
}

// kBytes of a head twice: of first and second elements of pairs, or of neighbours.
template <class T, int kBytes>
struct RopeItem {
  using Words = Unit<T, kBytes>;
  static constexpr int kCount = Words::kCount;
  Words first, second;

  __device__ __forceinline__ void turn(const float (&cos)[kCount], const float (&sin)[kCount]) {
    float x[kCount], y[kCount];
    first.unpack(x);
    second.unpack(y);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float turned = turned_first(x[i], y[i], cos[i], sin[i]);
      y[i] = turned_second(x[i], y[i], cos[i], sin[i]);
      x[i] = turned;
    }
    first.pack(x);
    second.pack(y);
  }

  // From neighbours to first and second elements.
  __device__ __forceinline__ void part() {
    if constexpr (kCount == 1) return;
    const RopeItem from = *this;
#pragma unroll
    for (int i = 0; i < Words::kWords; ++i) {
      const u32 a = from.word(2 * i), b = from.word(2 * i + 1);
      first.word[i] = T::kSize == 4 ? a : (a & 0xffffu) | b << 16;
      second.word[i] = T::kSize == 4 ? b : a >> 16 | (b & 0xffff0000u);
    }
  }

  // And back.
  __device__ __forceinline__ void join() {
    if constexpr (kCount == 1) return;
    const RopeItem from = *this;
#pragma unroll
    for (int i = 0; i < Words::kWords; ++i) {
      const u32 a = from.first.word[i], b = from.second.word[i];
      word(2 * i) = T::kSize == 4 ? a : (a & 0xffffu) | b << 16;
      word(2 * i + 1) = T::kSize == 4 ? b : a >> 16 | (b & 0xffff0000u);
    }
  }

 private:
  __device__ __forceinline__ u32& word(int i) {
    return i < Words::kWords ? first.word[i] : second.word[i - Words::kWords];
  }
  __device__ __forceinline__ u32 word(int i) const {
    return i < Words::kWords ? first.word[i] : second.word[i - Words::kWords];
  }
};

// Where a thread's item lies in each head, in bytes.
struct RopeOffsets {
  int first, second;
  bool both;  // behind the pairs the second may be past the end

  __device__ __forceinline__ RopeOffsets(const KwRopeParams& p, u32 item, int count, int size) {
    const int at = static_cast<int>(item) * count, turning = static_cast<int>(p.turning) * count;
    const bool halves = at < turning && p.interleaved == 0;
    const int begin = halves ? at : at < turning ? 2 * at : 2 * p.pairs + 2 * (at - turning);
    const int other = halves ? begin + p.pairs : begin + count;
    both = other < p.d;
    first = begin * size, second = other * size;
  }
};

__device__ __forceinline__ char* rope_head(const KwRopeParams& p, const KwHeads& q, const KwHeads& k, u32 batch,
                                           u32 head, u32 row) {
  if (head < p.q_heads) return q.data + batch * q.batch + head * q.head + row * q.row;
  return k.data + batch * k.batch + (head - p.q_heads) * k.head + row * k.row;
}

template <class T, int kBytes>
__device__ __forceinline__ void rope_run(const KwRopeParams& p) {
  using Item = RopeItem<T, kBytes>;
  constexpr int kCount = Item::kCount;
  allow_next_kernel();
  wait_for_previous_kernel();
  const u32 thread = blockIdx.x * blockDim.x + threadIdx.x;
  if (thread >= p.threads) return;
  const u32 local = thread / p.row_threads, within = thread - local * p.row_threads;
  const u32 group = within / p.items, item = within - group * p.items;
  const u32 batch = (p.first + local) / p.rows, row = p.first + local - batch * p.rows;
  const RopeOffsets at(p, item, kCount, T::kSize);
  const bool turns = item < p.turning;
  float cos[kCount] = {}, sin[kCount] = {};
  if (turns) {
    const int position = rope_position(p, batch, row), pair = static_cast<int>(item) * kCount;
    read_angles<T>(p, batch, position, pair, cos, sin);
#pragma unroll
    for (int i = 0; i < kCount; ++i) sin[i] = p.inverse != 0 ? -sin[i] : sin[i];
  }
  Item items[kRopeHeads];
#pragma unroll
  for (int i = 0; i < kRopeHeads; ++i) {
    const u32 head = group + i * p.groups;
    if (head >= p.heads) break;
    const char* const from = rope_head(p, p.q, p.k, batch, head, row);
    load<kBytes>(from + at.first, items[i].first.word);
    if (at.both) load<kBytes>(from + at.second, items[i].second.word);
  }
#pragma unroll
  for (int i = 0; i < kRopeHeads; ++i) {
    const u32 head = group + i * p.groups;
    if (head >= p.heads) break;
    if (turns) {
      if (p.interleaved != 0) items[i].part();
      items[i].turn(cos, sin);
      if (p.interleaved != 0) items[i].join();
    }
    char* const to = rope_head(p, p.q_out, p.k_out, batch, head, row);
    store<kBytes>(to + at.first, items[i].first.word);
    if (at.both) store<kBytes>(to + at.second, items[i].second.word);
  }
}

}  // namespace kw
