// SPDX-License-Identifier: MIT
// Partial sums over the rows: where a block leaves what its threads have summed, and the second pass, which adds them,
// always in the same order.
#pragma once

#include "device/element.cuh"
#include "device/ptx/async.cuh"
#include "device/ptx/memory.cuh"
#include "device/reduce.cuh"
#include "ops/norm/geometry.h"

namespace kw {

// One sum, rounded to the type it is wanted in.
__device__ __forceinline__ void store_sum(char* to, u64 column, float sum, int kind) {
  if (kind == KW_SUMS_FLOAT32) {
    const u32 word[1] = {bits_of_float(sum)};
    store<4>(to + column * 4, word);
  } else {
    const u32 word[1] = {kind == KW_SUMS_FLOAT16 ? half_pair(sum, 0.0f) : bfloat_pair(sum, 0.0f)};
    store<2>(to + column * 2, word);
  }
}

// A block has `width` units of columns; its threads beside each other in a unit add every so many-th row of the sums. A
// unit is what a thread loads at once, `count` sums.
__device__ __forceinline__ void norm_reduce_partials(const KwNormReduceParams& p) {
  constexpr u32 kAhead = kPartialsAhead;              // loads on their way at once
  constexpr u32 kFewestWarps = kPartialsFewestWarps;  // of a block
  constexpr u32 kQuad = kPartialsQuad;
  extern __shared__ __align__(128) char norm_backward_memory[];
  float* scratch = reinterpret_cast<float*>(norm_backward_memory);  // of each warp, `width` units
  // Clusters that were placed among blocks of this kernel, one here and one there, would leave the last no place.
  if (!p.before_clusters) allow_next_kernel();
  wait_for_previous_kernel();
  const u32 width = p.width, count = p.count, rows = p.partials, units = p.cols / count;
  const u32 blocks = (units + width - 1) / width, side = blockDim.x / width;
  const bool bias = blockIdx.x >= blocks;
  char* to = bias ? p.dbias : p.dweight;
  if (to == nullptr) return;
  const u32 first = (blockIdx.x - (bias ? blocks : 0)) * width, unit = first + threadIdx.x % width;
  const float* from = p.partial + (bias ? static_cast<u64>(rows) * p.cols : 0) + unit * count;

  float total[kQuad] = {};
  for (u32 row = threadIdx.x / width; row < rows; row += side * kAhead) {
    u32 word[kAhead][kQuad] = {};
#pragma unroll
    for (u32 i = 0; i < kAhead; ++i) {
      if (unit >= units || row + i * side >= rows) continue;
      const float* sums = from + static_cast<u64>(row + i * side) * p.cols;
      if (count == kQuad) {
        load<16>(sums, word[i]);
      } else {
        load<4>(sums, word[i]);
      }
    }
#pragma unroll
    for (u32 i = 0; i < kAhead; ++i) {
#pragma unroll
      for (u32 j = 0; j < kQuad; ++j) total[j] += float_of_bits(word[i][j]);
    }
  }
#pragma unroll 1
  for (u32 mask = kWarp / 2; mask >= width; mask /= 2) {
#pragma unroll
    for (u32 j = 0; j < kQuad; ++j) total[j] += shuffle_xor(total[j], mask);
  }
  const u32 columns = width * count;
  if (threadIdx.x % kWarp < width) {
    float* mine = scratch + threadIdx.x / kWarp * columns + threadIdx.x % kWarp * count;
    if (count == kQuad) {
      *reinterpret_cast<float4*>(mine) = {total[0], total[1], total[2], total[3]};
    } else {
      *mine = total[0];
    }
  }
  __syncthreads();
  const u32 column = first * count + threadIdx.x;
  if (threadIdx.x >= columns || column >= p.cols) return;
  float sum = 0.0f;
#pragma unroll 1
  for (u32 warp = 0; warp < blockDim.x / kWarp; warp += kFewestWarps) {
#pragma unroll
    for (u32 i = 0; i < kFewestWarps; ++i) sum += scratch[(warp + i) * columns + threadIdx.x];
  }
  store_sum(to, column, sum, p.sums_kind);
}

// Four sums of this lane's columns from its `index`th on.
template <bool kOn16, class At>
__device__ __forceinline__ void store_quad(const At& at, char* to, u32 index, const float (&sum)[4]) {
  if (at.lane() >= at.group()) return;
  const u64 row = static_cast<u64>(at.sums_row()) * at.p.cols;
  if (kOn16 && at.p.sums_kind == KW_SUMS_FLOAT32 && at.offset_of(to) == 0) {
    const u32 begin = at.column(index);
    if (begin < at.p.cols) *reinterpret_cast<float4*>(to + (row + begin) * 4) = {sum[0], sum[1], sum[2], sum[3]};
    return;
  }
#pragma unroll
  for (u32 i = 0; i < 4; ++i) {
    const u32 column = at.column(index + i);
    if (column < at.p.cols) store_sum(to, row + column, sum[i], at.p.sums_kind);
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

// Adds the quads of the block's teams: each adds and stores some of the columns. First those for dweight, then, if
// there are so many lines, for dbias. Loops, not unrolled: this is done once a launch, and code that was not run before
// is slower to come by than to go round in.
template <bool kOn16, class At>
__device__ __forceinline__ void leave_partial_sums(const At& at, u32 lines) {
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
    if (to != nullptr) store_quad<kOn16>(at, to, line % kThreadQuads * 4, total);
  }
}

}  // namespace kw
