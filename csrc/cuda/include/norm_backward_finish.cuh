// SPDX-License-Identifier: MIT
// The second pass over the sums of each block's rows: adds them, always in the same order.
#pragma once

#include "element.cuh"
#include "norm_backward_params.h"
#include "ptx_memory.cuh"
#include "reduce.cuh"

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

// A block has `width` columns; its threads beside each other in a column add every so many-th row of the sums.
__device__ __forceinline__ void norm_backward_finish(const KwNormFinishParams& p) {
  constexpr int kAhead = 8;  // loads on their way at once
  __shared__ float scratch[kMaxWarps][kWarp];
  allow_next_kernel();
  wait_for_previous_kernel();
  const u32 width = p.width, cols = p.cols, blocks = (cols + width - 1) / width;
  const bool bias = blockIdx.x >= blocks;
  char* to = bias ? p.dbias : p.dweight;
  if (to == nullptr) return;
  const u32 column = (blockIdx.x - (bias ? blocks : 0)) * width + threadIdx.x % width;
  const u32 side = blockDim.x / width;
  const float* from = p.partial + (bias ? static_cast<u64>(p.partials) * cols : 0) + column;

  float sum[kAhead] = {};
  for (u32 row = threadIdx.x / width; row < p.partials; row += side * kAhead) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (column < cols && row + i * side < p.partials) sum[i] += from[static_cast<u64>(row + i * side) * cols];
    }
  }
  float total = ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
  for (u32 mask = kWarp / 2; mask >= width; mask /= 2) total += shuffle_xor(total, mask);
  scratch[threadIdx.x / kWarp][threadIdx.x % kWarp] = total;
  __syncthreads();
  if (threadIdx.x >= width || column >= cols) return;
  total = 0.0f;
  for (u32 warp = 0; warp < blockDim.x / kWarp; ++warp) total += scratch[warp][threadIdx.x];
  store_sum(to, column, total, p.sums_kind);
}

}  // namespace kw
