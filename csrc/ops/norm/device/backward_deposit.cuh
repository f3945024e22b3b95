// SPDX-License-Identifier: MIT
// Where a block leaves what its threads have summed over their rows.
#pragma once

#include "device/ptx/async.cuh"
#include "device/ptx/shared.cuh"
#include "ops/norm/device/backward_finish.cuh"
#include "ops/norm/device/backward_place.cuh"

namespace kw {

// One sum of the rows of one time: adds it to that of the times before.
template <class At>
__device__ __forceinline__ void leave_sum(const At& at, char* to, u64 index, float sum) {
  if (at.time > 0) {
    add_float(to + index * 4, sum);
  } else {
    store_sum(to, index, sum, at.p.sums_kind);
  }
}

template <class At>
__device__ __forceinline__ void store_quad(const At& at, char* to, u32 index, const float (&sum)[4]) {
  constexpr int kCount = At::kCount;
  if (at.lane() >= at.group()) return;
  const u64 block_row = static_cast<u64>(at.sums_row()) * at.p.cols;
  const u32 begin = at.column(index / kCount) + index % kCount;
  if (At::kRowsAligned && at.p.sums_kind == KW_SUMS_FLOAT32 && at.offset_of(to) == 0) {
    if (begin < at.p.cols) {
      *reinterpret_cast<float4*>(to + (block_row + begin) * 4) = {sum[0], sum[1], sum[2], sum[3]};
    }
    return;
  }
#pragma unroll
  for (u32 i = 0; i < 4; ++i) {
    if (begin + i < at.p.cols) store_sum(to, block_row + (begin + i), sum[i], at.p.sums_kind);
  }
}

// Leaves this lane's sums in its part of the warp's shared memory, whose rows are done: quads from `line` on, of kLine
// bytes for all lanes.
template <class At, int kSlots, int kCount>
__device__ __forceinline__ void keep_quads(const At& at, u32 line, const float (&sum)[kSlots][kCount]) {
#pragma unroll
  for (u32 i = 0; i < kSlots * kCount; i += 4) {
    const float* of = &sum[i / kCount][i % kCount];
    const u32 word[4] = {bits_of_float(of[0]), bits_of_float(of[1]), bits_of_float(of[2]), bits_of_float(of[3])};
    store_shared(at.buffer + (line + i / 4) * at.kLine, word);
  }
}

// Adds to this lane's quads those of lanes that had other rows.
template <class At>
__device__ __forceinline__ void add_lanes(const At& at, u32 lines) {
#pragma unroll 1
  for (u32 line = 0; line < lines && at.group() < kWarp; ++line) {
    Unit<Float32, 16> quad;
    float sum[4];
    load_shared(at.buffer + line * at.kLine, quad.word);
    quad.unpack(sum);
#pragma unroll 1
    for (u32 mask = kWarp / 2; mask >= at.group(); mask /= 2) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[i] += shuffle_xor(sum[i], mask);
    }
    quad.pack(sum);
    store_shared(at.buffer + line * at.kLine, quad.word);
  }
}

// The same where there is one team, which has whole warps: lanes store columns side by side, for these begin anywhere.
template <class At>
__device__ __forceinline__ void deposit_columns(const At& at, u32 lines) {
  constexpr u32 kLines = At::kCount / 4;
  __syncwarp();
  const u32 lane = at.lane(), first = at.column(0) - lane * At::kCount;
  const u32 end = at.end() / At::kCount * At::kCount - at.lead;
  const u64 row = at.first_sum() + first;
#pragma unroll 1
  for (u32 line = 0; line < lines; line += kLines * At::kSlots) {
    char* to = line == 0 ? at.p.dweight : at.p.dbias;
    if (to == nullptr) continue;
#pragma unroll 2
    for (u32 i = lane; i < at.lines * At::kCount * kWarp; i += kWarp) {
      const u32 unit = i / At::kCount, of = line + unit / kWarp * kLines + i / 4 % kLines;
      u32 word[1];
      load_shared<4>(at.buffer - lane * 16 + of * At::kLine + unit % kWarp * 16 + i % 4 * 4, word);
      if (first + i >= end) continue;
      leave_sum(at, to, row + i, float_of_bits(word[0]));
    }
  }
}

// Adds the quads of the block's teams: each adds and stores some of the columns. First those for dweight, then, if
// there are so many lines, for dbias. Loops, not unrolled: this is done once a launch, and code that was not run before
// is slower to come by than to go round in.
template <class At>
__device__ __forceinline__ void deposit(const At& at, u32 lines) {
  constexpr u32 kThreadQuads = At::kSlots * At::kCount / 4;
  add_lanes(at, lines);
  if (at.teams() > 1) __syncthreads();
  const u32 team_bytes = at.p.team_warps * at.warp_bytes(), first = at.buffer - at.team * team_bytes;
#pragma unroll 1
  for (u32 line = at.team; line < lines; line += at.teams()) {
    char* to = line < kThreadQuads ? at.p.dweight : at.p.dbias;
    float total[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll 1
    for (u32 other = 0; other < at.teams(); ++other) {
      Unit<Float32, 16> quad;
      float sum[4];
      load_shared(first + other * team_bytes + line * at.kLine, quad.word);
      quad.unpack(sum);
#pragma unroll
      for (int i = 0; i < 4; ++i) total[i] += sum[i];
    }
    if (to != nullptr) store_quad(at, to, line % kThreadQuads * 4, total);
  }
}

}  // namespace kw
