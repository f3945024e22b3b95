// SPDX-License-Identifier: MIT
// Sums over rows of the result of attention times its derivative, where all rows lie on 16 bytes.
#pragma once

#include "device/element.cuh"
#include "device/ptx/memory.cuh"
#include "device/reduce.cuh"
#include "ops/attention/device/tile_coordinates.cuh"

namespace kw {

// A lane's part of a sum: eight elements at `column` of both rows, of which there are d.
template <class T>
__device__ __forceinline__ float delta_part(const char* out, const char* dout, int column, int d) {
  if (column >= d) return 0.0f;
  Unit<T, 16> left, right;
  load<16>(out + column * 2, left.word);
  load<16>(dout + column * 2, right.word);
  float a[8], b[8], sum = 0.0f;
  left.unpack(a), right.unpack(b);
#pragma unroll
  for (u32 i = 0; i < 8; ++i) sum = fmaf(a[i], b[i], sum);
  return sum;
}

// A warp has a row.
template <class T>
__device__ __forceinline__ void attention_deltas(const KwAttentionBackwardParams& p) {
  const i64 rows = p.delta_rows, row = i64{blockIdx.x} * 4 + threadIdx.x / 32;
  if (row >= rows * p.delta_heads) return;
  const int head = static_cast<int>(row / rows % p.sizes.heads), batch = static_cast<int>(row / rows / p.sizes.heads);
  const int at = static_cast<int>(row % rows);
  const float sum = warp_sum(delta_part<T>(head_of(p.out, batch, head, at), head_of(p.dout, batch, head, at),
                                           static_cast<int>(threadIdx.x % 32 * 8), p.sizes.d_v));
  if (threadIdx.x % 32 == 0) p.delta[row] = sum;
}

}  // namespace kw
