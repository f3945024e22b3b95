// SPDX-License-Identifier: MIT
// The scales of 4-bit blocks into 8-bit codes: a block of 256 of them is a block of threads.
#pragma once

#include "device/ptx/sync.cuh"
#include "ops/four_bit/device/quantize_4bit.cuh"
#include "ops/four_bit/device/scales.cuh"
#include "ops/four_bit/geometry.h"

namespace kw {

// How many of the 255 middles between neighbours in the map `scaled` exceeds. One that it equals belongs to the even
// code: bitsandbytes' search ends on an even code and leaves it only for what is nearer.
__device__ __forceinline__ u32 code_by_middles(const float* middle, float scaled) {
  u32 code = 0;
#pragma unroll
  for (u32 step = kAbsmaxThreads / 2; step > 0; step /= 2) {
    const u32 last = code + step - 1;
    const float bound = middle[last];
    if (scaled > bound || (scaled == bound && last % 2 == 1)) code += step;
  }
  return code;
}

__device__ __forceinline__ void quantize_4bit_absmax(const KwQuantizeAbsmax4bitParams& p) {
  __shared__ float middle[kAbsmaxThreads];
  __shared__ u32 most[kAbsmaxThreads / kWarp];
  allow_next_kernel();
  wait_for_previous_kernel();
  const u32 thread = threadIdx.x;
  const i64 at = static_cast<i64>(blockIdx.x) * kAbsmaxThreads + thread;
  const float value = at < p.count ? load_float(p.absmax + at * 4) - load_float(p.offset) : 0.0f;
  const u32 next = thread + 1 < kAbsmaxThreads ? thread + 1 : thread;
  middle[thread] = (load_float(p.map + thread * 4) + load_float(p.map + next * 4)) * 0.5f;

  u32 bits = larger(0, bits_of_float(value));
#pragma unroll
  for (u32 mask = kWarp / 2; mask > 0; mask /= 2) {
    bits = larger(bits, bits_of_float(shuffle_xor(float_of_bits(bits), mask)));
  }
  if (thread % kWarp == 0) most[thread / kWarp] = bits;
  __syncthreads();
#pragma unroll
  for (u32 i = 0; i < kAbsmaxThreads / kWarp; ++i) bits = larger(bits, most[i]);
  const u32 scale[1] = {flushed(bits)};
  const float scaled = multiply_flushed(value, reciprocal_of_normal(float_of_bits(scale[0])));
  if (thread == 0) store<4>(p.absmax2 + static_cast<i64>(blockIdx.x) * 4, scale);
  if (at >= p.count) return;
  const u32 code[1] = {code_by_middles(middle, scaled)};
  store<1>(p.codes + at, code);
}

}  // namespace kw
