// SPDX-License-Identifier: MIT
// Where a thread of the derivatives stands: its rows, its columns; and its shared memory, where rows ahead are on their
// way and the weights of its columns stay. Threads keep to their columns and go from row to row.
#pragma once

#include "device/element.cuh"
#include "device/ptx/async.cuh"
#include "device/ptx/hints.cuh"
#include "device/ptx/shared.cuh"
#include "device/reduce.cuh"
#include "ops/norm/device/common.cuh"
#include "ops/norm/geometry.h"

namespace kw {

constexpr u32 kNever = 0xffffffffu;  // a turn that no thread has

// kOn16: rows begin and end on 16 bytes, and a thread has vectors of them; else it has single elements, `group` apart.
// kLag: the derivatives of a row follow its sums by so many rows. kColumns: of a thread. kWideColumns are for rows that
// several blocks share, with weights of T or none: what a warp does once a row is done by half as many.
template <class T, bool kOn16, u32 kLag, u32 kColumns>
struct BackwardThread {
  static constexpr bool kWide = kColumns == kWideColumns;
  static constexpr u32 kWarpColumns = kColumns * kWarp;
  static constexpr int kWeightSize = kWide ? T::kSize : 4;  // in shared memory
  using Piece = Unit<T, 16>;
  static constexpr int kCount = Piece::kCount;
  static constexpr int kSlots = kColumns / kCount;  // units a thread
  static constexpr u32 kLine = kWarp * 16;          // bytes that one instruction of a warp moves
  static constexpr u32 kStages = kLag + 2;
  static constexpr u32 kClusterTeams = kWide ? kWideTeams : 1;  // that a block of a cluster may have

  const KwNormBackwardParams& p;
  const u32 buffer;  // this lane's part of its warp's shared memory
  u32 team;          // of the block
  u32 first;         // this thread's first unit; the others follow `group` apart. Else its first column
  u32 turns;         // rows this thread has

  __device__ __forceinline__ BackwardThread(const KwNormBackwardParams& params, u32 shared)
      : p(params), buffer(shared + threadIdx.x / kWarp * warp_bytes() + lane() * 16) {
    team = threadIdx.x / kWarp / p.team_warps;
    first = (part() * p.team_warps + warp()) * (kOn16 ? kWarp * kSlots : kWarpColumns) + place();
    turns = p.turns + (first_row() < p.rest);
  }

  // What follows from these is not to be kept from turn to turn, where registers are too few: the compiler would have
  // a pointer for each unit, and spill them.
  template <class Pointer>
  static __device__ __forceinline__ void forget(Pointer& pointer) {
    if constexpr (kWide) asm volatile("" : "+l"(pointer));
  }

  __device__ __forceinline__ i64 first_row() const {
    const i64 team_of_all = static_cast<i64>(blockIdx.x / p.parts) * teams() + team;
    return team_of_all * (kWarp / group()) + lane() / group();
  }

  // A warp's shared memory: rows on their way or waiting to be done, then its weights. Of rows off 16 bytes the aligned
  // vectors that hold them, one more than there would be, and of dsum one row.
  __device__ __forceinline__ u32 row_bytes() const { return kSlots * group() * 16 + 16; }
  __device__ __forceinline__ u32 tensor_bytes() const { return kSlots * kLine + (kOn16 ? 0 : kWarp / group() * 16); }
  __device__ __forceinline__ u32 stage_bytes() const { return 2 * tensor_bytes(); }
  __device__ __forceinline__ u32 dsum_from() const { return kStages * stage_bytes(); }
  __device__ __forceinline__ u32 weights_from() const {
    return dsum_from() + (!kOn16 && p.dsum != nullptr ? tensor_bytes() : 0);
  }
  __device__ __forceinline__ u32 warp_bytes() const { return weights_from() + kWarpColumns * kWeightSize; }

  __device__ __forceinline__ u32 group() const { return kWide ? kWarp : p.group; }
  static __device__ __forceinline__ u32 lane() { return threadIdx.x % kWarp; }
  __device__ __forceinline__ u32 place() const { return lane() % group(); }
  __device__ __forceinline__ u32 warp() const { return threadIdx.x / kWarp - team * p.team_warps; }
  __device__ __forceinline__ u32 teams() const { return blockDim.x / kWarp / p.team_warps; }
  __device__ __forceinline__ u32 part() const { return kWide ? blockIdx.x & (p.parts - 1) : blockIdx.x % p.parts; }
  __device__ __forceinline__ u32 unit(int slot) const { return first + slot * group(); }
  __device__ __forceinline__ u32 at(int slot) const { return slot * group() * 16; }
  // Of this thread's so many-th element.
  __device__ __forceinline__ u32 column(u32 i) const {
    return kOn16 ? unit(i / kCount) * kCount + i % kCount : first + i * group();
  }
  __device__ __forceinline__ bool exists(int slot) const { return unit(slot) * kCount < static_cast<u32>(p.cols); }
  __device__ __forceinline__ bool has(u32 turn, int slot) const { return turn < turns && exists(slot); }

  // Of rows off 16 bytes: elements before those of this lane's warp, and how many of them follow in the row.
  __device__ __forceinline__ u32 before() const { return first - place(); }
  __device__ __forceinline__ u32 first_byte() const { return kOn16 ? first * 16 : before() * T::kSize; }
  __device__ __forceinline__ u32 left() const { return before() < p.cols ? p.cols - before() : 0; }

  // Those of `warps` warps of a row, from its `from`th on.
  __device__ __forceinline__ float columns(u32 from, u32 warps) const {
    const int there = p.cols - static_cast<int>(from * kWarpColumns), most = warps * kWarpColumns;
    return static_cast<float>(there < 0 ? 0 : there < most ? there : most);
  }
  static __device__ __forceinline__ float inverse(float count) { return count > 0.0f ? 1.0f / count : 0.0f; }

  // Those that warp `index` of the team sums.
  __device__ __forceinline__ float summed(u32 index) const {
    if (p.parts == 1 || p.cluster) return columns(part() * p.team_warps + index, 1);
    float sum = 0.0f;
    for (int i = 0; i < p.parts; ++i) sum += columns(i * p.team_warps + index, 1);
    return sum;
  }

  // Those of a block of the row's.
  __device__ __forceinline__ float of_block(u32 index) const { return columns(index * p.team_warps, p.team_warps); }

  // For all of the block: how many columns each warp of a team has, and each block of a cluster.
  template <class Scratch>
  __device__ __forceinline__ void count_columns(Scratch& scratch) const {
    const u32 i = threadIdx.x;
    if (i < p.team_warps) {
      scratch.warp_count[i] = summed(i);
      scratch.warp_inverse[i] = inverse(scratch.warp_count[i]);
    }
    if (p.cluster && i < p.parts) scratch.block_count[i] = of_block(i);
    if (i == 0) scratch.block_inverse = p.cluster ? inverse(of_block(part())) : p.inverse_cols;
    __syncthreads();
  }

  // Of the rows of partial sums, which one is the block's.
  __device__ __forceinline__ u32 sums_row() const { return blockIdx.x / p.parts; }

  static __device__ __forceinline__ u32 offset_of(const char* data) {
    return static_cast<u32>(reinterpret_cast<u64>(data)) & 15u;
  }
};

template <class T, bool kOn16, u32 kLag, u32 kColumns>
struct BackwardPipeline : BackwardThread<T, kOn16, kLag, kColumns> {
  using Thread = BackwardThread<T, kOn16, kLag, kColumns>;
  using Thread::at, Thread::before, Thread::buffer, Thread::column, Thread::first, Thread::group, Thread::has;
  using Thread::kCount, Thread::kLine, Thread::kSlots, Thread::kWide, Thread::lane, Thread::left;
  using Thread::offset_of, Thread::p, Thread::place, Thread::row_bytes, Thread::tensor_bytes, Thread::turns;
  using Thread::unit, Thread::weights_from;
  using typename Thread::Piece;

  static constexpr u32 kAtOnce = 8;  // weights on their way, where they are read one by one

  const char *dy, *h;  // where rows are to be read next

  __device__ __forceinline__ BackwardPipeline(const KwNormBackwardParams& params, u32 shared) : Thread(params, shared) {
    const i64 row = this->first_row();
    const int from = this->first_byte();
    dy = p.dy + row * p.dy_pitch + from;
    h = p.h + row * p.h_pitch + from;
  }

  __device__ __forceinline__ void next_row() {
    dy += p.dy_step;
    h += p.h_step;
    this->forget(dy);
    this->forget(h);
    copies_commit();
  }

  // One of this thread's vectors.
  __device__ __forceinline__ void fetch(u32 stage, u32 turn, int slot) const {
    const u32 bytes = has(turn, slot) ? 16 : 0;
    copy_async(stage + slot * kLine, dy + at(slot), bytes);
    copy_async(stage + tensor_bytes() + slot * kLine, h + at(slot), bytes);
  }

  // The whole row, by its lanes.
  __device__ __forceinline__ void fetch_row(u32 stage, u32 turn) const {
    if constexpr (kOn16) {
#pragma unroll
      for (int s = 0; s < kSlots; ++s) fetch(stage, turn, s);
    } else if (turn < turns) {
#pragma unroll 1
      for (u32 i = 0; i < 2; ++i) fetch_vectors(stage + i * tensor_bytes(), i == 0 ? dy : h, i);
    }
  }

  // Of dy, h or dsum. What reaches beyond the tensor is read by elements.
  __device__ __forceinline__ void fetch_vectors(u32 to, const char* row, u32 tensor) const {
    const u32 begin = offset_of(row), end = begin + left() * T::kSize;
    const char* vectors = row - begin;
    to += lane() / group() * row_bytes();
#pragma unroll 1
    for (u32 at = place() * 16; at < end && at < row_bytes(); at += group() * 16) {
      if (static_cast<u64>(vectors + at - p.first[tensor]) <= p.reach[tensor]) {
        copy_async(to + at, vectors + at, 16);
        continue;
      }
      u32 word[4];
      load_elements<T>(vectors + at, at < begin ? (begin - at) / T::kSize : 0, (end - at) / T::kSize, word);
      store_shared(to + at, word);
    }
  }

  // A unit of dy and of h, `behind` rows before the one that is fetched next, if that row is there. Else, and beyond
  // the row, zeros and `absent`.
  __device__ __forceinline__ void read(u32 stage, u32 behind, int slot, bool there, float absent, float (&y)[kCount],
                                       float (&x)[kCount]) const {
    if constexpr (kOn16) {
      Piece of_y, of_x;
      load_shared(stage + slot * kLine, of_y.word);
      load_shared(stage + tensor_bytes() + slot * kLine, of_x.word);
      of_y.unpack(y);
      of_x.unpack(x);
    } else {
      read_elements(stage, dy - behind * p.dy_step, slot, there, 0.0f, y);
      read_elements(stage + tensor_bytes(), h - behind * p.h_step, slot, there, absent, x);
    }
  }

  // Without branches, which would have each load waited for: what is not there is read from the weights' memory.
  __device__ __forceinline__ void read_elements(u32 stage, const char* row, int slot, bool there, float absent,
                                                float (&value)[kCount]) const {
    const u32 step = group() * T::kSize, end = there ? p.cols : 0, other = buffer + weights_from();
    u32 from = stage + lane() / group() * row_bytes() + offset_of(row) + place() * T::kSize + slot * kCount * step;
    Unit<T, T::kSize> one[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i, from += step) {
      load_shared<T::kSize>(column(slot * kCount + i) < end ? from : other, one[i].word);
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      one[i].unpack(&value[i]);
      value[i] = column(slot * kCount + i) < end ? value[i] : absent;
    }
  }

  // As float32, so that one kernel serves every type of them; a wide block has no room for that. Not unrolled: done
  // once.
  __device__ __forceinline__ void keep_vectors() const {
    const u32 mine = computed_here(first);  // or what follows from it would be kept for the rows, and spilled
#pragma unroll 1
    for (int s = 0; s < kSlots; ++s) {
      const u32 column = (mine + s * group()) * kCount;
      const bool there = column < p.cols;
      float weight[kCount];
#pragma unroll
      for (int i = 0; i < kCount; ++i) weight[i] = 1.0f;
      if (p.weight_kind == KW_WEIGHT_LIKE_X && there) {
        load_weights<T>(column, weight);
      } else if (!kWide && T::kSize < 4 && p.weight_kind == KW_WEIGHT_FLOAT32 && there) {
#pragma unroll
        for (u32 i = 0; i < kCount; i += 4) load_weights<Float32>(column + i, weight + i);
      }
      if constexpr (kWide) {
        Piece piece;
        piece.pack(weight);
        store_shared(buffer + weights_from() + s * kLine, piece.word);
      } else {
#pragma unroll
        for (int i = 0; i < kCount; i += 4) {
          const u32 word[4] = {bits_of_float(weight[i]), bits_of_float(weight[i + 1]), bits_of_float(weight[i + 2]),
                               bits_of_float(weight[i + 3])};
          store_shared(buffer + weights_from() + (s * kCount + i) / 4 * kLine, word);
        }
      }
    }
  }

  template <class W>
  __device__ __forceinline__ void load_weights(u32 column, float* weight) const {
    Unit<W, 16> unit;
    const char* from = p.weight + column * W::kSize;
    if (offset_of(from) == 0) {
      load<16>(from, unit.word);
    } else {
      load_elements<W>(from, 0, Unit<W, 16>::kCount, unit.word);
    }
    unit.unpack(weight);
  }

  __device__ __forceinline__ void keep_weights() const {
    if constexpr (kOn16) {
      keep_vectors();
    } else {
      keep_elements();
    }
  }

  // Of columns that do not follow each other.
  __device__ __forceinline__ void keep_elements() const {
#pragma unroll 1
    for (u32 i = 0; i < kColumns; i += kAtOnce) {
      float weight[kAtOnce];
#pragma unroll
      for (u32 j = 0; j < kAtOnce; ++j) weight[j] = weight_at(column(i + j));
#pragma unroll
      for (u32 j = 0; j < kAtOnce; ++j) keep_element(i + j, weight[j]);
    }
  }

  __device__ __forceinline__ void keep_element(u32 i, float weight) const {
    if constexpr (kWide) {
      Unit<T, T::kSize> one;
      one.pack(&weight);
      store_shared<T::kSize>(buffer + weights_from() + i / kCount * kLine + i % kCount * T::kSize, one.word);
    } else {
      const u32 word[1] = {bits_of_float(weight)};
      store_shared<4>(buffer + weights_from() + i / 4 * kLine + i % 4 * 4, word);
    }
  }

  __device__ __forceinline__ float weight_at(u32 index) const {
    Unit<T, T::kSize> one;
    u32 word[1];
    float weight = 1.0f;
    if (index >= p.cols || p.weight_kind == KW_WEIGHT_NONE) return weight;
    if (!kWide && T::kSize < 4 && p.weight_kind == KW_WEIGHT_FLOAT32) {
      load<4>(p.weight + index * 4, word);
      return float_of_bits(word[0]);
    }
    load<T::kSize>(p.weight + index * T::kSize, one.word);
    one.unpack(&weight);
    return weight;
  }

  __device__ __forceinline__ void weights(int slot, float (&weight)[kCount]) const {
    if constexpr (kWide) {
      Piece piece;
      load_shared(buffer + weights_from() + slot * kLine, piece.word);
      piece.unpack(weight);
    } else {
#pragma unroll
      for (int i = 0; i < kCount; i += 4) {
        Unit<Float32, 16> quad;
        load_shared(buffer + weights_from() + (slot * kCount + i) / 4 * kLine, quad.word);
        quad.unpack(weight + i);
      }
    }
  }

  // Near the elements of h that the lanes of this one's row have: the mean of their first few.
  __device__ __forceinline__ float pivot_of(u32 stage, bool there) const {
    float x[4];
    if constexpr (kOn16) {
      Piece piece;
      float all[kCount];
      load_shared(stage + tensor_bytes() - place() * 16, piece.word);
      piece.unpack(all);
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] = all[i];
    } else {
      const u32 from = stage + tensor_bytes() + lane() / group() * row_bytes() + offset_of(h - 2 * p.h_step);
#pragma unroll
      for (u32 i = 0; i < 4; ++i) {
        Unit<T, T::kSize> one;
        x[i] = i > 0 ? x[0] : 0.0f;
        if (!there || i >= left()) continue;
        load_shared<T::kSize>(from + i * T::kSize, one.word);
        one.unpack(&x[i]);
      }
    }
    return ((x[0] + x[1]) + (x[2] + x[3])) * 0.25f;
  }
};

}  // namespace kw
