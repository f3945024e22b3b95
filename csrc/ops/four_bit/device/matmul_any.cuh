// SPDX-License-Identifier: MIT
// The product with a 4-bit weight of any shape, at any address, in any type, one row of the weight a warp. Codes become
// values by a shuffle, as in dequantize_4bit.cuh.
#pragma once

#include "ops/four_bit/device/dequantize_4bit.cuh"
#include "ops/four_bit/geometry.h"

namespace kw {

// Adds the products of the warp's codes, one a lane.
template <class T>
__device__ __forceinline__ void add_products(const KwMatmul4bitParams& p, i64 row, const char* x, u32 rows, float value,
                                             float (&sum)[kAnyRows]) {
  const i64 start = row * p.k;
  for (i64 base = 0; base < p.k; base += kWarp) {
    const i64 at = base + threadIdx.x % kWarp;
    const bool inside = at < p.k;
    const i64 block = (start + at) >> p.scales.block_log2;
    u32 codes[1] = {0};
    Scale4bit scale;
    if (inside) {
      load<1>(p.packed + (start + at) / 2, codes);
      scale.fetch(p.scales, block);
    }
    const float by = inside ? scale.get(p.scales, block) : 0.0f;
    const float weight = shuffle_from(value, codes[0] >> code_shift((start + at) % 2));
    if (!inside) continue;
#pragma unroll
    for (u32 m = 0; m < kAnyRows; ++m) {
      if (m >= rows) break;
      sum[m] = fmaf(weight * load_element<T>(x + m * p.x_pitch + at * T::kSize), by, sum[m]);
    }
  }
}

template <class T>
__device__ __forceinline__ void matmul_4bit_any(const KwMatmul4bitParams& p) {
  const float value = p.values[threadIdx.x % 16];
  allow_next_kernel();
  wait_for_previous_kernel();
  const i64 warp = static_cast<i64>(blockIdx.x) * (kAnyThreads / kWarp) + threadIdx.x / kWarp;
  const i64 row = warp % p.n;
  const i64 m = warp / p.n * kAnyRows;
  if (m >= p.m) return;
  const u32 rows = p.m - m < kAnyRows ? static_cast<u32>(p.m - m) : kAnyRows;
  float sum[kAnyRows] = {};
  add_products<T>(p, row, p.x + m * p.x_pitch, rows, value, sum);
#pragma unroll
  for (u32 i = 0; i < kAnyRows; ++i) {
    float total[1] = {warp_sum(sum[i])};
    if (i >= rows || threadIdx.x % kWarp != 0) continue;
    if (p.bias != nullptr) total[0] += load_element<T>(p.bias + row * T::kSize);
    Unit<T, T::kSize> unit;
    unit.pack(total);
    store<T::kSize>(p.y + (m + i) * p.y_pitch + row * T::kSize, unit.word);
  }
}

}  // namespace kw
