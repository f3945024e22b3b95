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

// Elements of type T from `from` on, `step` apart.
template <class T, int kCount>
__device__ __forceinline__ void read_table(const char* from, int step, bool vectors, float (&to)[kCount]) {
  constexpr int kBytes = kCount * T::kSize < 16 ? T::kSize : 16, kEach = kBytes / T::kSize;
  if (vectors) {
#pragma unroll
    for (int i = 0; i < kCount; i += kEach) {
      Unit<T, kBytes> unit;
      load<kBytes>(from + i * T::kSize, unit.word);
      unit.unpack(to + i);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      Unit<T, T::kSize> one;
      load<T::kSize>(from + i * step * T::kSize, one.word);
      one.unpack(to + i);
    }
  }
}

template <class T, int kCount>
__device__ __forceinline__ void read_angles(const KwRopeParams& p, const KwRopeTable& table, u32 batch, int place,
                                            int pair, float (&to)[kCount]) {
  const char* const row = table.data + batch * table.batch + place * table.row;
  if (T::kSize == 4 || p.wide != 0) {
    read_table<Float32>(row + pair * p.step * Float32::kSize, p.step, p.vectors != 0, to);
  } else {
    read_table<T>(row + pair * p.step * T::kSize, p.step, p.vectors != 0, to);
  }
}

// The row of the tables for a row of a sequence; one that is not there is the nearest that is.
__device__ __forceinline__ int rope_place(const KwRopeParams& p, u32 batch, u32 row) {
  i64 place = row;
  if (p.positions != nullptr) {
    u32 word[1];
    load<4>(p.positions + batch * p.positions_batch + row * p.positions_row, word);
    place = static_cast<i64>(static_cast<int>(word[0])) + (p.adds_row != 0 ? row : 0);
  }
  return place < 0 ? 0 : place < p.places ? static_cast<int>(place) : p.places - 1;
}

// kBytes of a head twice: of first and second elements of pairs, or of neighbours.
template <class T, int kBytes>
struct RopeItem {
  static constexpr int kCount = kBytes / T::kSize;
  Unit<T, kBytes> first, second;

  __device__ __forceinline__ void turn_halves(const float (&cos)[kCount], const float (&sin)[kCount]) {
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

  __device__ __forceinline__ void turn_neighbours(const float (&cos)[kCount], const float (&sin)[kCount]) {
    float x[2 * kCount];
    first.unpack(x);
    second.unpack(x + kCount);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float turned = turned_first(x[2 * i], x[2 * i + 1], cos[i], sin[i]);
      x[2 * i + 1] = turned_second(x[2 * i], x[2 * i + 1], cos[i], sin[i]);
      x[2 * i] = turned;
    }
    first.pack(x);
    second.pack(x + kCount);
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
    const int place = rope_place(p, batch, row), pair = static_cast<int>(item) * kCount;
    read_angles<T>(p, p.cos, batch, place, pair, cos);
    read_angles<T>(p, p.sin, batch, place, pair, sin);
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
    if (turns && p.interleaved == 0) items[i].turn_halves(cos, sin);
    if (turns && p.interleaved != 0) items[i].turn_neighbours(cos, sin);
    char* const to = rope_head(p, p.q_out, p.k_out, batch, head, row);
    store<kBytes>(to + at.first, items[i].first.word);
    if (at.both) store<kBytes>(to + at.second, items[i].second.word);
  }
}

}  // namespace kw
