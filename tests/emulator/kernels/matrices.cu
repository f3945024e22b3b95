// SPDX-License-Identifier: MIT
// The instructions on matrices by themselves: one warp, A of 16 x 16 and B of 16 x 8 in rows, D = A * B + C; and one
// warpgroup, A of 64 x 16 and B of 16 x 32.
#include "device/ptx/memory.cuh"
#include "device/ptx/shared.cuh"
#include "device/ptx/wgmma.cuh"

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

// B lies in columns, in the second 16 of 64 of k; A and C go from memory to registers.
template <bool kBfloat>
__device__ __forceinline__ void group_product(const MatrixParams& p) {
  __shared__ __align__(16) u16 room[32 * 64 + 512];
  const u32 thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const u32 begin = (kw::shared_address(room) + 1023) & ~1023u;
  for (u32 i = thread; i < 16 * 32; i += 128) {
    const u32 k = i / 32, column = i % 32, word[1] = {p.b[i]};
    kw::store_shared<2>(begin + column * 128 + ((2 + k / 8) ^ column % 8) * 16 + k % 8 * 2, word);
  }
  __syncthreads();
  const u32 row = warp * 16 + lane / 4, place = lane % 4 * 2;
  u32 a[4];
  float d[16];
  for (u32 i = 0; i < 4; ++i) {
    const u32 at = (row + i % 2 * 8) * 16 + i / 2 * 8 + place;
    a[i] = p.a[at] | static_cast<u32>(p.a[at + 1]) << 16;
  }
  auto at = [&](u32 i) { return (row + i / 2 % 2 * 8) * 32 + i / 4 * 8 + place + i % 2; };
  for (u32 i = 0; i < 16; ++i) d[i] = p.c[at(i)];
  const unsigned long long b = kw::whole_group_matrix(kw::group_matrix(begin) + 2);
  kw::group_begin();
  if constexpr (kBfloat) {
    kw::multiply_group_bfloat(d, a, b, 1);
  } else {
    kw::multiply_group_half(d, a, b, 1);
  }
  kw::group_commit();
  kw::group_wait<0>(d);
  for (u32 i = 0; i < 16; ++i) p.d[at(i)] = d[i];
}

extern "C" __global__ void __launch_bounds__(128) group_product_float16(const MatrixParams p) {
  group_product<false>(p);
}
extern "C" __global__ void __launch_bounds__(128) group_product_bfloat16(const MatrixParams p) {
  group_product<true>(p);
}
