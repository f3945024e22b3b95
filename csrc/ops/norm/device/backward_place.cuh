// SPDX-License-Identifier: MIT
// Where a thread of the derivatives stands: its rows, its columns, its shared memory. Threads keep to their columns and
// go from row to row.
#pragma once

#include "device/element.cuh"
#include "device/reduce.cuh"
#include "ops/norm/backward_params.h"
#include "ops/norm/device/backward_edge.cuh"

namespace kw {

// How rows lie.
//   kOn16     they begin and end on 16 bytes
//   kInPhase  a row of each tensor begins as far off 16 bytes as that of the others: units are the aligned vectors
//             that hold it, and all rows that a thread adds up begin alike
//   kAnyhow   what is copied are the aligned vectors that hold the thread's units, one more for each row of a warp than
//             there are units, and a unit is made of its own vector and the next
enum class Lie { kOn16, kInPhase, kAnyhow };

constexpr u32 kThreadColumns = 16;
constexpr u32 kWideColumns = 32;
constexpr u32 kWideTeams = 3;

constexpr u32 kNever = 0xffffffffu;  // a turn that no thread has
// Of BackwardPlace's `shapes`.
constexpr u32 kIsPart = 0x80, kIsFull = 0x100, kHasLoose = 0x200, kSends = 0x400, kMakesSlopes = 0x800;
// Of a lane of the warp that has what lies in no unit: it has an element, it copies a word, which begins before the row
// or ends after it.
constexpr u32 kHasElement = 0x1000, kCopiesWord = 0x2000, kBeginsBefore = 0x4000, kEndsAfter = 0x8000;
// Warps of a block: not the first two, which have more to do otherwise, nor one of the last, which have more lines.
constexpr u32 kSlopesWarp = 1, kLooseWarp = 2;

// kLag: the derivatives of a row follow its sums by so many rows. kColumns: of a thread. kWideColumns are for rows that
// several blocks share, with weights of T or none: what a warp does once a row is done by half as many.
template <class T, Lie kLie, u32 kLag, u32 kColumns>
struct BackwardPlace {
  static constexpr bool kWide = kColumns == kWideColumns;
  static constexpr u32 kWarpColumns = kColumns * kWarp;
  static constexpr int kWeightSize = kWide ? T::kSize : 4;  // in shared memory
  static constexpr bool kAligned = kLie != Lie::kAnyhow;    // units are vectors of memory
  static constexpr bool kInPhase = kLie == Lie::kInPhase;
  static constexpr bool kEdges = kInPhase && !kWide;   // of which the row's first and last may be parts
  static constexpr bool kIsLoose = kInPhase && kWide;  // what lies in no whole vector is not a unit's
  using Piece = Unit<T, 16>;
  static constexpr int kCount = Piece::kCount;
  static constexpr int kSlots = kColumns / kCount;  // units a thread
  static constexpr u32 kLine = kWarp * 16;          // bytes that one instruction of a warp moves
  static constexpr u32 kStages = kLag + 2;
  static constexpr bool kRowsAligned = kLie == Lie::kOn16;
  static constexpr u32 kClusterTeams = kWide && kRowsAligned ? kWideTeams : 1;  // that a block of a cluster may have
  static constexpr int kCopies = kSlots + (kAligned ? 0 : 1);

  const KwNormBackwardParams& p;
  const u32 buffer;  // this lane's part of its warp's shared memory
  u32 team;          // of the block
  u32 first;         // this thread's first unit; the others follow `group` apart
  u32 lines;         // of this warp, if kIsLoose: how many units each of its lanes has, at most
  u32 turns;         // rows this thread has
  u32 lead = 0;      // elements before the row in its first unit; less than none if kIsLoose
  u32 time = 0;      // of leaving sums, that this one's rows are for
  i64 begin = 0;     // this thread's first row, if kInPhase
  // Of this thread's units, if kEdges: a byte each, how many bytes reach to the row's end, and kIsPart. If kIsLoose, a
  // bit each, whether there is one, and what the warp does besides.
  u32 shapes = 0;

  __device__ __forceinline__ BackwardPlace(const KwNormBackwardParams& params, u32 memory)
      : p(params), buffer(memory + threadIdx.x / kWarp * warp_bytes() + lane() * 16) {
    team = kWide && kClusterTeams == 1 ? 0 : threadIdx.x / kWarp / p.team_warps;
    if constexpr (kIsLoose) {
      first = (part() * p.lines + lines_before(warp())) * kWarp + place();
      lines = lines_before(warp() + 1) - lines_before(warp());
    } else {
      first = (part() * p.team_warps + warp()) * kWarp * kSlots + place();
    }
    if constexpr (!kInPhase) turns = p.turns + (first_row() < p.rest);
  }

  __device__ __forceinline__ void find_units() {
    shapes = 0;
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
      if (begins(unit(s) * kCount) && s < lines) shapes |= 1 << s;
    }
    if (lines == kSlots) shapes |= kIsFull;
    if (part() == 0 && warp() == kLooseWarp) shapes |= kHasLoose;
    if (warp() == 0) shapes |= kSends;
    if (warp() == kSlopesWarp) shapes |= kMakesSlopes;
  }
  // Alike in all lanes.
  __device__ __forceinline__ bool is(u32 what) const { return any_of_warp((shapes & what) != 0); }

  // Rows that begin alike: every so many-th, of which a block has some in turns, or else those that come next when all
  // are in the order of where they begin.
  __device__ __forceinline__ void begin_time(u32 which) {
    const u32 group_of_blocks = blockIdx.x / p.parts;
    if (p.times == 1) {
      begin = row_of_lane();
      turns = p.turns + (row_of_lane() < p.rest);
    } else {
      time = which;
      const u32 rows = p.rows, rest = p.rest, pause = kIsLoose ? p.pause : 0;
      const u32 mine = p.turns + (group_of_blocks < rest);
      const u32 from = group_of_blocks * p.turns + (group_of_blocks < rest ? group_of_blocks : rest);
      // What begins otherwise, rows that begin alike, and how; after them a pause, as long as some rows.
      u32 before = 0, count = 0, of = 0;
      while (before + count <= from) before += count, count = (rows + p.period - 1 - of++) / p.period + pause;
      const u32 left = before + count - from, there = left > pause ? left - pause : 0;
      const u32 first_time = mine < there ? mine : there;
      begin = which == 0 ? (from - before) * p.period + of - 1 : of;
      const u32 second_time = kIsLoose ? (mine < left ? 0 : mine - left) : mine - first_time;
      turns = which == 0 ? first_time : second_time;
    }
    const char* row = p.dy + first_row() * p.dy_pitch;
    if constexpr (kIsLoose) {
      lead = 0 - ((0 - static_cast<u32>(reinterpret_cast<u64>(row)) / T::kSize) & (p.anchor - 1));
    } else {
      lead = offset_of(row) / T::kSize;
    }
    if constexpr (kEdges) find_shapes();
    if constexpr (kIsLoose) find_units();
  }

  __device__ __forceinline__ void find_shapes() {
    shapes = 0;
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
      if (unit(s) * kCount >= end()) continue;
      const Part part = part_of(s);
      shapes |= (part.end * T::kSize | (part.begin > 0 || part.end < kCount ? kIsPart : 0)) << s * 8;
    }
  }
  // What follows from these is not to be kept from turn to turn, where registers are too few: the compiler would have
  // a pointer for each unit, and spill them.
  __device__ __forceinline__ void forget_shapes() {
    if constexpr (kEdges) asm volatile("" : "+r"(shapes));
  }
  template <class Pointer>
  static __device__ __forceinline__ void forget(Pointer& pointer) {
    if constexpr (kWide || kEdges) asm volatile("" : "+l"(pointer));
  }

  __device__ __forceinline__ u32 bytes_of(int slot) const { return shapes >> slot * 8 & 0x1f; }

  __device__ __forceinline__ i64 row_of_lane() const {
    const u32 group_of_blocks = blockIdx.x / p.parts, phase = group_of_blocks & (p.period - 1);
    const u32 lanes = kWarp / group(), slot = team * lanes + lane() / group();
    return static_cast<i64>(group_of_blocks - phase) * (teams() * lanes) + slot * p.period + phase;
  }

  __device__ __forceinline__ i64 first_row() const {
    if constexpr (kInPhase) return begin;
    const i64 team_of_all = static_cast<i64>(blockIdx.x / p.parts) * teams() + team;
    return team_of_all * (kWarp / group()) + lane() / group();
  }

  // A warp's shared memory: rows of dy and h on their way or waiting to be done, then its weights.
  __device__ __forceinline__ u32 tensor_bytes() const {
    return kSlots * kLine + (kAligned ? 0 : (kWarp + 1 - group()) * 16);
  }
  __device__ __forceinline__ u32 stage_bytes() const { return 2 * tensor_bytes(); }
  __device__ __forceinline__ u32 weights_from() const { return kStages * stage_bytes(); }
  __device__ __forceinline__ u32 warp_bytes() const { return weights_from() + kWarpColumns * kWeightSize; }

  __device__ __forceinline__ u32 group() const { return kWide ? kWarp : p.group; }
  static __device__ __forceinline__ u32 lane() { return threadIdx.x % kWarp; }
  // Powers of two: masks, for a division costs as much as three columns.
  __device__ __forceinline__ u32 place() const { return kInPhase ? lane() & (group() - 1) : lane() % group(); }
  __device__ __forceinline__ u32 warp() const { return threadIdx.x / kWarp - team * p.team_warps; }
  __device__ __forceinline__ u32 teams() const {
    return kWide && kClusterTeams == 1 ? 1 : blockDim.x / kWarp / p.team_warps;
  }
  __device__ __forceinline__ u32 part() const {
    return kInPhase || kWide ? blockIdx.x & (p.parts - 1) : blockIdx.x % p.parts;
  }
  __device__ __forceinline__ u32 unit(int slot) const { return first + slot * group(); }
  __device__ __forceinline__ u32 at(int slot) const { return slot * group() * 16; }
  __device__ __forceinline__ u32 column(int slot) const { return unit(slot) * kCount - lead; }
  __device__ __forceinline__ u32 end() const { return p.cols + lead; }
  __device__ __forceinline__ bool exists(int slot) const {
    return kEdges ? bytes_of(slot) > 0 : kIsLoose ? (shapes & 1 << slot) != 0 : begins(unit(slot) * kCount);
  }
  // Whether what begins so many elements after the first unit does is a unit.
  __device__ __forceinline__ bool begins(u32 after) const { return after + (kIsLoose ? kCount - 1 : 0) < end(); }
  __device__ __forceinline__ bool has(u32 turn, int slot) const { return turn < turns && exists(slot); }

  // Those of `warps` warps of a row, from its `from`th on.
  __device__ __forceinline__ float columns(u32 from, u32 warps) const {
    const int left = end() - static_cast<int>(from * kWarpColumns), most = warps * kWarpColumns;
    const int count = left < 0 ? 0 : left < most ? left : most;
    return static_cast<float>(from == 0 ? count - static_cast<int>(lead) : count);
  }

  // If kIsLoose. Lines of a block, of a unit a lane each, before those of one of its warps.
  __device__ __forceinline__ u32 lines_before(u32 index) const {
    const u32 more = p.lines - p.warp_lines * p.team_warps, fewer = p.team_warps - more;
    return index * p.warp_lines + (index > fewer ? index - fewer : 0);
  }
  // The columns of warps of a block, from one to before another.
  __device__ __forceinline__ float columns_of(u32 block, u32 from, u32 to) const {
    const u32 before = block * p.lines + lines_before(from), most = (lines_before(to) - lines_before(from)) * kWarp;
    const int left = end() / kCount - static_cast<int>(before * kWarp);
    const int units = left < 0 ? 0 : left < most ? left : most;
    return static_cast<float>(units * kCount + (block == 0 && from <= kLooseWarp && to > kLooseWarp ? loose() : 0));
  }
  static __device__ __forceinline__ float inverse(float count) { return count > 0.0f ? 1.0f / count : 0.0f; }

  // Those that warp `index` of the team sums.
  __device__ __forceinline__ float summed(u32 index) const {
    if constexpr (kIsLoose) return columns_of(part(), index, index + 1);
    if (p.parts == 1 || p.cluster) return columns(part() * p.team_warps + index, 1);
    float sum = 0.0f;
    for (int i = 0; i < p.parts; ++i) sum += columns(i * p.team_warps + index, 1);
    return sum;
  }

  // Those of a block of the row's.
  __device__ __forceinline__ float of_block(u32 index) const {
    return kIsLoose ? columns_of(index, 0, p.team_warps) : columns(index * p.team_warps, p.team_warps);
  }

  // For all of the block: how many columns each warp of a team has, and each block of a cluster.
  template <class Scratch>
  __device__ __forceinline__ void count_columns(Scratch& scratch) const {
    const u32 i = threadIdx.x;
    const bool cluster = kIsLoose || p.cluster;
    if (i < p.team_warps) {
      scratch.warp_count[i] = summed(i);
      scratch.warp_inverse[i] = inverse(scratch.warp_count[i]);
    }
    if (cluster && i < p.parts) scratch.block_count[i] = of_block(i);
    if (i == 0) scratch.block_inverse = cluster ? inverse(of_block(part())) : p.inverse_cols;
    __syncthreads();
  }

  // What of a unit that exists is the row's.
  __device__ __forceinline__ Part part_of(int slot) const {
    const u32 left = end() - unit(slot) * kCount;
    return {unit(slot) == 0 ? lead : 0, left < kCount ? left : kCount};
  }
  __device__ __forceinline__ bool is_part(int slot) const { return kEdges && (shapes & kIsPart << slot * 8) != 0; }

  // Elements that are in no unit, if kIsLoose: those of one warp of a row's first block.
  __device__ __forceinline__ int loose() const { return p.cols - end() / kCount * kCount; }
  __device__ __forceinline__ u32 loose_column(u32 i) const { return i < -lead ? i : end() / kCount * kCount + i; }

  // Of `partials`.
  __device__ __forceinline__ u32 sums_row() const { return blockIdx.x / p.parts * (kInPhase ? p.times : 1) + time; }
  // If kIsLoose: sums from one row of them, of a block's both times, to the next, which begins on 16 bytes.
  __device__ __forceinline__ u32 sums_pitch() const { return (p.cols + 3) & ~3u; }
  __device__ __forceinline__ u64 first_sum() const { return static_cast<u64>(blockIdx.x / p.parts) * sums_pitch(); }

  // Where the last row of a tensor ends.
  __device__ __forceinline__ const char* end_of(const char* tensor, i64 pitch) const {
    return tensor + (p.rows - 1) * pitch + p.cols * T::kSize;
  }

  static __device__ __forceinline__ u32 offset_of(const char* data) {
    return static_cast<u32>(reinterpret_cast<u64>(data)) & 15u;
  }
};

}  // namespace kw
