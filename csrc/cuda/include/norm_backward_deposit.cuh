// SPDX-License-Identifier: MIT
// Where a block leaves what its threads have summed over their rows.
#pragma once

#include "norm_backward_finish.cuh"
#include "norm_backward_place.cuh"
#include "ptx_async.cuh"

namespace kw {

constexpr u32 kThreadQuads = kThreadColumns / 4;

// Four sums of columns from `begin` on, rounded to the type they are wanted in, to the tensor that has `row` columns
// before them.
__device__ __forceinline__ void store_quad(const KwNormBackwardParams& p, char* to, u64 row, u32 begin,
                                           const float (&sum)[4]) {
  const u32 left = begin < p.cols ? p.cols - begin : 0;
  if (p.sums_kind == KW_SUMS_FLOAT32) {
    to += (row + begin) * 4;
    const u32 word[4] = {bits_of_float(sum[0]), bits_of_float(sum[1]), bits_of_float(sum[2]), bits_of_float(sum[3])};
    if (left >= 4 && reinterpret_cast<u64>(to) % 16 == 0) return store<16>(to, word);
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      if (i < left) store<4>(to + i * 4, word + i);
    }
    return;
  }
  to += (row + begin) * 2;
  u32 word[2] = {bfloat_pair(sum[0], sum[1]), bfloat_pair(sum[2], sum[3])};
  if (p.sums_kind == KW_SUMS_FLOAT16) word[0] = half_pair(sum[0], sum[1]), word[1] = half_pair(sum[2], sum[3]);
  const bool words = left >= 4 && reinterpret_cast<u64>(to) % 4 == 0;
#pragma unroll
  for (u32 i = 0; i < 2; ++i) {
    const u32 second[1] = {word[i] >> 16};
    if (words) store<4>(to + i * 4, word + i);
    if (!words && i * 2 < left) store<2>(to + i * 4, word + i);
    if (!words && i * 2 + 1 < left) store<2>(to + i * 4 + 2, second);
  }
}

// Leaves this lane's sums in its part of the warp's shared memory, whose rows are done: quads from `line` on, of kLine
// bytes for all lanes.
template <class At, int kSlots, int kCount>
__device__ __forceinline__ void keep_quads(const At& at, u32 line, const float (&sum)[kSlots][kCount]) {
#pragma unroll
  for (u32 i = 0; i < kThreadColumns; i += 4) {
    const float* of = &sum[i / kCount][i % kCount];
    const u32 word[4] = {bits_of_float(of[0]), bits_of_float(of[1]), bits_of_float(of[2]), bits_of_float(of[3])};
    store_shared(at.buffer + (line + i / 4) * at.kLine, word);
  }
}

// Adds to this lane's quads those of lanes that had other rows.
template <class At>
__device__ __forceinline__ void add_lanes(const At& at, u32 lines) {
#pragma unroll 1
  for (u32 line = 0; line < lines && at.p.group < kWarp; ++line) {
    Unit<Float32, 16> quad;
    float sum[4];
    load_shared(at.buffer + line * at.kLine, quad.word);
    quad.unpack(sum);
#pragma unroll 1
    for (u32 mask = kWarp / 2; mask >= at.p.group; mask /= 2) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[i] += shuffle_xor(sum[i], mask);
    }
    quad.pack(sum);
    store_shared(at.buffer + line * at.kLine, quad.word);
  }
}

// Adds the quads of the block's teams: each adds and stores some of the columns. First those for dweight, then, if
// there are so many lines, for dbias.
template <class At>
__device__ __forceinline__ void deposit(const At& at, u32 lines) {
  add_lanes(at, lines);
  const u32 teams = at.p.teams, team_bytes = at.p.team_warps * at.warp_bytes(), from = at.buffer - at.team * team_bytes;
  const u64 row = static_cast<u64>(blockIdx.x >> at.p.parts_log2) * at.p.cols;
  if (teams > 1) __syncthreads();
  if (at.lane() >= at.p.group) return;
#pragma unroll 1
  for (u32 line = at.team; line < lines; line += teams) {
    Unit<Float32, 16> quad;
    float total[4];
    load_shared(from + line * at.kLine, quad.word);
    quad.unpack(total);
#pragma unroll 4
    for (u32 other = 1; other < teams; ++other) {
      float sum[4];
      load_shared(from + other * team_bytes + line * at.kLine, quad.word);
      quad.unpack(sum);
#pragma unroll
      for (int i = 0; i < 4; ++i) total[i] += sum[i];
    }
    char* to = line < kThreadQuads ? at.p.dweight : at.p.dbias;
    const u32 index = line % kThreadQuads * 4;
    if (to != nullptr) store_quad(at.p, to, row, at.column(index / at.kCount) + index % at.kCount, total);
  }
}

}  // namespace kw
