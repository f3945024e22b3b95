// SPDX-License-Identifier: MIT
// Where a thread of the derivatives stands: its rows, its columns, its shared memory. Threads keep to their columns and
// go from row to row.
#pragma once

#include "element.cuh"
#include "norm_backward_params.h"
#include "reduce.cuh"

namespace kw {

constexpr u32 kThreadColumns = 16;
constexpr u32 kWarpColumns = kThreadColumns * kWarp;

// kAligned: all rows begin and end on 16 bytes. Else they lie anyhow: what is copied are the aligned vectors that hold
// the thread's units, one more for each row of a warp than there are units, and a unit is made of its own vector and
// the next.
// kLag: the derivatives of a row follow its sums by so many rows.
template <class T, bool kAligned, u32 kLag>
struct BackwardPlace {
  using Piece = Unit<T, 16>;
  static constexpr u32 kNever = 0xffffffffu;  // a turn that no thread has
  static constexpr int kCount = Piece::kCount;
  static constexpr int kSlots = kThreadColumns / kCount;  // units a thread
  static constexpr u32 kLine = kWarp * 16;                // bytes that one instruction of a warp moves
  static constexpr u32 kStages = kLag + 2;
  static constexpr bool kRowsAligned = kAligned;
  static constexpr int kCopies = kSlots + (kAligned ? 0 : 1);

  const KwNormBackwardParams& p;
  const u32 buffer;  // this lane's part of its warp's shared memory
  u32 team;          // of the block
  u32 first;         // this thread's first unit; the others follow `group` apart
  u32 turns;         // rows this thread has

  __device__ __forceinline__ BackwardPlace(const KwNormBackwardParams& params, u32 memory)
      : p(params), buffer(memory + threadIdx.x / kWarp * warp_bytes() + lane() * 16) {
    team = threadIdx.x / kWarp / p.team_warps;
    const u32 warp_of_row = part() * p.team_warps + warp();
    first = warp_of_row * kWarp * kSlots + lane() % p.group;
    turns = p.turns + (first_row() < p.rest);
  }

  __device__ __forceinline__ i64 first_row() const {
    const i64 team_of_all = static_cast<i64>(blockIdx.x / p.parts) * teams() + team;
    return team_of_all * (kWarp / p.group) + lane() / p.group;
  }

  // A warp's shared memory: rows of dy and h on their way or waiting to be done, then its weights.
  __device__ __forceinline__ u32 tensor_bytes() const {
    return kSlots * kLine + (kAligned ? 0 : (kWarp + 1 - p.group) * 16);
  }
  __device__ __forceinline__ u32 stage_bytes() const { return 2 * tensor_bytes(); }
  __device__ __forceinline__ u32 weights_from() const { return kStages * stage_bytes(); }
  __device__ __forceinline__ u32 warp_bytes() const { return weights_from() + kWarpColumns * 4; }

  static __device__ __forceinline__ u32 lane() { return threadIdx.x % kWarp; }
  __device__ __forceinline__ u32 place() const { return lane() % p.group; }
  __device__ __forceinline__ u32 warp() const { return threadIdx.x / kWarp - team * p.team_warps; }
  __device__ __forceinline__ u32 teams() const { return blockDim.x / kWarp / p.team_warps; }
  __device__ __forceinline__ u32 part() const { return blockIdx.x % p.parts; }
  __device__ __forceinline__ u32 unit(int slot) const { return first + slot * p.group; }
  __device__ __forceinline__ u32 at(int slot) const { return slot * p.group * 16; }
  __device__ __forceinline__ u32 column(int slot) const { return unit(slot) * kCount; }
  __device__ __forceinline__ bool exists(int slot) const { return column(slot) < static_cast<u32>(p.cols); }
  __device__ __forceinline__ bool has(u32 turn, int slot) const { return turn < turns && exists(slot); }

  // Those of `warps` warps of a row, from its `from`th on.
  __device__ __forceinline__ float columns(u32 from, u32 warps) const {
    const int left = p.cols - static_cast<int>(from * kWarpColumns), most = warps * kWarpColumns;
    return static_cast<float>(left < 0 ? 0 : left < most ? left : most);
  }
  static __device__ __forceinline__ float inverse(float count) { return count > 0.0f ? 1.0f / count : 0.0f; }

  // Those that warp `index` of the team sums.
  __device__ __forceinline__ float summed(u32 index) const {
    if (p.parts == 1 || p.cluster) return columns(part() * p.team_warps + index, 1);
    float sum = 0.0f;
    for (int i = 0; i < p.parts; ++i) sum += columns(i * p.team_warps + index, 1);
    return sum;
  }

  // Where the last row of a tensor ends.
  __device__ __forceinline__ const char* end_of(const char* tensor, i64 pitch) const {
    return tensor + (p.rows - 1) * pitch + p.cols * T::kSize;
  }

  static __device__ __forceinline__ u32 offset_of(const char* data) {
    return static_cast<u32>(reinterpret_cast<u64>(data)) & 15u;
  }
};

}  // namespace kw
