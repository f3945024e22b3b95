// SPDX-License-Identifier: MIT
// y = relu(gate)^2 * up, and its derivatives. A thread reads its units of all tensors before it writes: results may
// take the place of inputs.
#pragma once

#include "device/element.cuh"
#include "device/ptx/memory.cuh"
#include "device/ptx/sync.cuh"
#include "ops/ternary/params.h"

namespace kw {

template <class T, int kBytes, bool kBackward>
__device__ __forceinline__ void relu2_gated_unit(const KwRelu2GatedParams& p, i64 row, i64 offset) {
  using Piece = Unit<T, kBytes>;
  Piece gate, up, dy;
  float g[Piece::kCount], u[Piece::kCount], d[Piece::kCount];
  load<kBytes>(p.gate + row * p.gate_pitch + offset, gate.word);
  load<kBytes>(p.up + row * p.up_pitch + offset, up.word);
  gate.unpack(g);
  up.unpack(u);
  if constexpr (kBackward) {
    load<kBytes>(p.dy + row * p.dy_pitch + offset, dy.word);
    dy.unpack(d);
  }
#pragma unroll
  for (int i = 0; i < Piece::kCount; ++i) {
    const float positive = g[i] < 0.0f ? 0.0f : g[i];
    if constexpr (kBackward) {
      g[i] = 2.0f * positive * (d[i] * u[i]);
      u[i] = d[i] * (positive * positive);
    } else {
      g[i] = positive * positive * u[i];
    }
  }
  gate.pack(g);
  store<kBytes>(p.out + row * p.out_pitch + offset, gate.word);
  if constexpr (kBackward) {
    up.pack(u);
    store<kBytes>(p.up_out + row * p.up_out_pitch + offset, up.word);
  }
}

template <class T, int kBytes, bool kBackward>
__device__ __forceinline__ void relu2_gated(const KwRelu2GatedParams& p) {
  allow_next_kernel();
  wait_for_previous_kernel();
  const i64 count = p.rows * p.units;
#pragma unroll 1
  for (i64 i = i64{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += i64{gridDim.x} * blockDim.x) {
    const i64 row = p.rows == 1 ? 0 : i / p.units;
    relu2_gated_unit<T, kBytes, kBackward>(p, row, (i - row * p.units) * kBytes);
  }
}

}  // namespace kw
