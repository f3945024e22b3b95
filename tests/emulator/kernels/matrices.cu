// SPDX-License-Identifier: MIT
// The instruction on matrices of a warp by itself: one warp, A of 16 x 16 and B of 16 x 8 in rows, D = A * B + C.
#include "device/ptx/memory.cuh"
#include "device/ptx/shared.cuh"

struct MatrixParams {
  const unsigned short *a, *b;
  const float* c;
  float* d;
};

using kw::u16;
using kw::u32;

__device__ __forceinline__ void load_a(u32 (&a)[4], u32 from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"(from));
}

// B lies in rows, so its matrices are transposed on the way.
__device__ __forceinline__ void load_b(u32 (&b)[2], u32 from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(b[0]), "=r"(b[1]) : "r"(from));
}

template <bool kBfloat>
__device__ __forceinline__ void multiply(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2], const float (&c)[4]) {
  if constexpr (kBfloat) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
  }
}

template <bool kBfloat>
__device__ __forceinline__ void product(const MatrixParams& p) {
  __shared__ __align__(16) u16 a[16][16];
  __shared__ __align__(16) u16 b[16][8];
  const u32 lane = threadIdx.x;
  for (u32 i = lane; i < 256; i += 32) a[i / 16][i % 16] = p.a[i];
  for (u32 i = lane; i < 128; i += 32) b[i / 8][i % 8] = p.b[i];
  __syncwarp();
  // Of A the matrices below each other come first, then those beside them.
  u32 of_a[4], of_b[2];
  load_a(of_a, kw::shared_address(&a[lane % 16][lane / 16 * 8]));
  load_b(of_b, kw::shared_address(b[lane % 16]));
  float d[4], c[4];
  auto place = [&](u32 i) { return (lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2; };
  for (u32 i = 0; i < 4; ++i) c[i] = p.c[place(i)];
  multiply<kBfloat>(d, of_a, of_b, c);
  for (u32 i = 0; i < 4; ++i) p.d[place(i)] = d[i];
}

extern "C" __global__ void __launch_bounds__(32) product_float16(const MatrixParams p) { product<false>(p); }
extern "C" __global__ void __launch_bounds__(32) product_bfloat16(const MatrixParams p) { product<true>(p); }
