// SPDX-License-Identifier: MIT
// y where clusters of matmul_narrow.cuh had pieces of k: what they have of an element is added up, always in the
// same order.
#pragma once

#include "device/element.cuh"
#include "device/ptx/memory.cuh"
#include "device/ptx/sync.cuh"
#include "ops/four_bit/device/scales.cuh"

namespace kw {

template <class T>
__device__ __forceinline__ void matmul_4bit_narrow_sum(const KwMatmul4bitNarrowSumParams& p) {
  allow_next_kernel();
  wait_for_previous_kernel();
  const u32 m = blockIdx.x / p.row_blocks, n = (blockIdx.x - m * p.row_blocks) * blockDim.x + threadIdx.x;
  if (n >= p.n) return;
  const float bias = p.bias != nullptr ? load_element<T>(p.bias + n * u64{2}) : 0.0f;
  float total = 0.0f;
#pragma unroll 4
  for (u32 piece = 0; piece < p.pieces; ++piece) {
    total += load_float(p.sums + ((piece * u64{p.m} + m) * p.n + n) * 4);
  }
  const float value[1] = {total * p.by + bias};
  Unit<T, 2> unit;
  unit.pack(value);
  store<2>(p.y + m * p.y_pitch + n * u64{2}, unit.word);
}

}  // namespace kw
