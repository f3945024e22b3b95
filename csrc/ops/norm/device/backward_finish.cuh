// SPDX-License-Identifier: MIT
// The second pass over the sums of each block's rows: adds them, always in the same order.
#pragma once

#include "device/element.cuh"
#include "device/ptx/memory.cuh"
#include "device/reduce.cuh"
#include "ops/norm/backward_params.h"

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
__device__ __forceinline__ void norm_backward_finish(const KwNormFinishParams& p) {
  constexpr u32 kAhead = 8;        // loads on their way at once
  constexpr u32 kFewestWarps = 8;  // of a block
  constexpr u32 kQuad = 4;
  extern __shared__ __align__(128) char norm_backward_memory[];
  float* scratch = reinterpret_cast<float*>(norm_backward_memory);  // of each warp, `width` units
  // Clusters that were placed among blocks of this kernel, one here and one there, would leave the last no place.
  if (!p.before_clusters) allow_next_kernel();
  wait_for_previous_kernel();
  const u32 width = p.width, count = p.count, rows = p.partials, units = p.pitch / count;
  const u32 blocks = (units + width - 1) / width, side = blockDim.x / width;
  const bool bias = blockIdx.x >= blocks;
  char* to = bias ? p.dbias : p.dweight;
  if (to == nullptr) return;
  const u32 first = (blockIdx.x - (bias ? blocks : 0)) * width, unit = first + threadIdx.x % width;
  const float* from = p.partial + (bias ? static_cast<u64>(rows) * p.pitch : 0) + unit * count;

  float total[kQuad] = {};
  for (u32 row = threadIdx.x / width; row < rows; row += side * kAhead) {
    u32 word[kAhead][kQuad] = {};
#pragma unroll
    for (u32 i = 0; i < kAhead; ++i) {
      if (unit >= units || row + i * side >= rows) continue;
      const float* sums = from + static_cast<u64>(row + i * side) * p.pitch;
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

}  // namespace kw
