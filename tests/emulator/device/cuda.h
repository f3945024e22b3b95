// SPDX-License-Identifier: MIT
// What CUDA's language has and C++ has not, for the translated sources (translate.py).
#pragma once

#include <math.h>

#include "emulated.h"

#define __device__
#define __global__
#define __constant__ const
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)  // the kernel's row of the image says it
#define __align__(bytes) alignas(bytes)

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

#define threadIdx (emulated_thread_index())
#define blockIdx (emulated_block_index())
#define blockDim (emulated_block_size())
#define gridDim (emulated_grid_size())

inline void __syncthreads() { emulated_barrier(0, 0); }

inline void __syncwarp(unsigned lanes = 0xffffffffu) { emulated_meet("__syncwarp", lanes, nullptr, nullptr); }

inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(1ull * a * b >> 32); }
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __clz(int bits) { return bits == 0 ? 32 : __builtin_clz(static_cast<unsigned>(bits)); }
template <class T>
constexpr T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
constexpr T max(T a, T b) {
  return a < b ? b : a;
}
