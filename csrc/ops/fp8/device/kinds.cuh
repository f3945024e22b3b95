// SPDX-License-Identifier: MIT
// What products of e4m3 are to the kernels that they share with int8.
#pragma once

#include "device/ptx/matrix.cuh"
#include "device/ptx/matrix_e4m3.cuh"
#include "device/ptx/memory.cuh"
#include "ops/fp8/device/e4m3.cuh"
#ifdef KW_HAS_WGMMA
#include "device/ptx/wgmma_e4m3_shared.cuh"
#endif

namespace kw {

struct E4m3Words {
  using Element = float;
  using Sum = float;
  static constexpr u32 kDepth = 16, kBytes = 1;

  __device__ __forceinline__ static float read(const char* from, i64 count) {
    u32 code[1] = {0};
    if (count > 0) load<1>(from, code);
    return float_of_e4m3(code[0]);
  }

  __device__ __forceinline__ static float add(float left, float right, float sum) { return fmaf(left, right, sum); }
};

#ifdef KW_HAS_BF16_MMA

// Of few rows, as float16, which has every number of e4m3: products are exact, and sums are float32's.
struct E4m3Halves {
  using Sum = float;
  static constexpr u32 kAhead = E4m3Pairs::kProducts == 1.0f ? 3 : 2;  // GPUs before the instruction need fewer bytes
  static constexpr bool kEndsOnce = true;

  __device__ __forceinline__ static void multiply(float (&c)[4], const u32 (&a)[4], u32 b_low, u32 b_high) {
    const E4m3Pairs first(a[0]), eighth(a[1]), low(b_low);
    const u32 left[4] = {first.pair[0], eighth.pair[0], first.pair[1], eighth.pair[1]};
    multiply_half(c, left, low.pair[0], low.pair[1]);
    const E4m3Pairs further(a[2]), eighth_further(a[3]), high(b_high);
    const u32 rest[4] = {further.pair[0], eighth_further.pair[0], further.pair[1], eighth_further.pair[1]};
    multiply_half(c, rest, high.pair[0], high.pair[1]);
  }

  __device__ __forceinline__ static float result(float sum) { return multiply_rounded(sum, E4m3Pairs::kProducts); }
};

#endif

#ifdef KW_HAS_FP8_MMA

// Tensor cores add up products of e4m3 in fewer bits than float32 has: the sums of each instruction are added here.
struct E4m3Warps {
  using Sum = float;

  __device__ __forceinline__ static void multiply(float (&c)[4], const u32 (&a)[4], u32 b_low, u32 b_high) {
    float part[4] = {};
    multiply_e4m3(part, a, b_low, b_high);
#pragma unroll
    for (u32 i = 0; i < 4; ++i) c[i] += part[i];
  }
};

#endif

#ifdef KW_HAS_WGMMA

struct E4m3Kind {
  using Sum = float;
  static constexpr bool kPromotes = true;

  template <u32 kCount>
  __device__ __forceinline__ static void multiply(float (&d)[kCount], u64 left, u64 right, u32 add) {
    wgmma_e4m3(d, left, right, add);
  }
};

#endif

}  // namespace kw
