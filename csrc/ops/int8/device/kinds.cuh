// SPDX-License-Identifier: MIT
// What products of int8 are to the kernels that they share with e4m3. Sums are exact.
#pragma once

#include "device/ptx/matrix.cuh"
#ifdef KW_HAS_WGMMA
#include "device/ptx/wgmma_s8_shared.cuh"
#endif

namespace kw {

#if defined(KW_HAS_INT8_MMA) && defined(KW_HAS_CP_ASYNC)

struct Int8Warps {
  using Sum = int;
  static constexpr u32 kAhead = 3;
  static constexpr bool kEndsOnce = false;

  __device__ __forceinline__ static void multiply(int (&c)[4], const u32 (&a)[4], u32 b_low, u32 b_high) {
    multiply_int8(c, a, b_low, b_high);
  }

  __device__ __forceinline__ static int result(int sum) { return sum; }
};

#endif

#ifdef KW_HAS_WGMMA

struct Int8Kind {
  using Sum = int;
  static constexpr bool kPromotes = false;

  template <u32 kCount>
  __device__ __forceinline__ static void multiply(int (&d)[kCount], u64 left, u64 right, u32 add) {
    wgmma_s8(d, left, right, add);
  }
};

#endif

}  // namespace kw
