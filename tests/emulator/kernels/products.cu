// SPDX-License-Identifier: MIT
// Products by a warpgroup (wgmma): D = A * B + C of 64 x k and k x n elements, k being one instruction's, which lie
// with k as the faster dimension in memory and in shared memory as each kernel says. And those with a fault, which they
// are named after; these have two groups, of which the second adds the same product once more.
#include "device/ptx/bulk.cuh"
#include "device/ptx/fence.cuh"
#include "device/ptx/memory.cuh"
#include "device/ptx/registers.cuh"
#include "device/ptx/shared.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/ptx/wgmma_bf16_registers.cuh"
#include "device/ptx/wgmma_bf16_shared.cuh"
#include "device/ptx/wgmma_e4m3_registers.cuh"
#include "device/ptx/wgmma_e4m3_shared.cuh"
#include "device/ptx/wgmma_f16_registers.cuh"
#include "device/ptx/wgmma_f16_shared.cuh"
#include "device/ptx/wgmma_s8_registers.cuh"
#include "device/ptx/wgmma_s8_shared.cuh"

struct ProductParams {
  const unsigned char *a, *b;
  const unsigned* c;
  unsigned* d;
};

using kw::Swizzle;
using kw::u32;
using kw::u64;

#define WGMMA_OF(name, size, sum)                                                 \
  struct Of_##name {                                                              \
    static constexpr u32 kSize = size;                                            \
    using Sum = sum;                                                              \
    template <int kLeft, int kRight, u32 kCount>                                  \
    static __device__ void multiply(Sum (&d)[kCount], u64 a, u64 b) {             \
      kw::wgmma_##name WGMMA_BOTH_##size(d, a, b, 1);                             \
    }                                                                             \
    template <int kLeft, int kRight, u32 kCount>                                  \
    static __device__ void multiply(Sum (&d)[kCount], const u32 (&a)[4], u64 b) { \
      kw::wgmma_##name WGMMA_RIGHT_##size(d, a, b, 1);                            \
    }                                                                             \
  };
#define WGMMA_BOTH_2 <kLeft, kRight>
#define WGMMA_RIGHT_2 <kRight>
#define WGMMA_BOTH_1
#define WGMMA_RIGHT_1
WGMMA_OF(f16, 2, float)
WGMMA_OF(bf16, 2, float)
WGMMA_OF(e4m3, 1, float)
WGMMA_OF(s8, 1, int)

// Where byte `at` of the 32 of k of a row (or column) lies. `wide`: bytes of the swizzle, 16 without one.
__device__ __forceinline__ u32 place_of(u32 row, u32 at, u32 wide, bool transposed) {
  if (!transposed) {
    if (wide == 16) return row / 8 * 256 + at / 16 * 128 + row % 8 * 16 + at % 16;
    return row * wide + ((at / 16) ^ (row * wide / 128 % (wide / 16))) * 16 + at % 16;
  }
  const u32 k = at / 2, eight = row / 8, many = wide / 16;
  if (wide == 16) return eight * 256 + k / 8 * 128 + k % 8 * 16 + row % 8 * 2;
  return eight / many * (16 * wide) + k * wide + ((eight % many) ^ (k * wide / 128 % many)) * 16 + row % 8 * 2;
}

__device__ __forceinline__ u32 left_at() {
  __shared__ __align__(1024) unsigned char rooms[(256 + 64) * 128 + 1024];
  return (kw::shared_address(rooms) + 1023) & ~1023u;
}
__device__ __forceinline__ u32 right_at() { return left_at() + 64 * 128; }

__device__ __forceinline__ u64 descriptor_of(u32 at, Swizzle swizzle, u32 wide, bool transposed) {
  const u32 leading = wide == 16 ? 128 : transposed ? 16 * wide : 16;
  return kw::smem_descriptor(kw::smem_layout(swizzle, wide == 16 ? 256 : 8 * wide), kw::smem_matrix(at, leading));
}

// Both matrices to shared memory, by ordinary stores of 16 bits.
template <u32 kSize>
__device__ __forceinline__ void put(u32 to, const unsigned char* from, u32 rows, u32 wide, bool transposed) {
  for (u32 i = threadIdx.x; i < rows * 16; i += 128) {
    u32 word[1];
    kw::load<2>(from + i * 2, word);
    kw::store_shared<2>(to + place_of(i / 16, i % 16 * 2, wide, transposed), word);
  }
}

template <class Of, u32 kColumns>
struct Sums {
  static constexpr u32 kCount = kColumns / 2;
  typename Of::Sum d[kCount];

  static __device__ u32 place(u32 i) {
    const u32 row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + i / 2 % 2 * 8;
    return row * kColumns + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
  }
  __device__ void load(const ProductParams& p) {
    for (u32 i = 0; i < kCount; ++i) d[i] = reinterpret_cast<const typename Of::Sum*>(p.c)[place(i)];
  }
  __device__ void store(const ProductParams& p) {
    for (u32 i = 0; i < kCount; ++i) reinterpret_cast<typename Of::Sum*>(p.d)[place(i)] = d[i];
  }
};

// The left matrix as the lanes have it.
template <class Of>
__device__ __forceinline__ void load_left(const ProductParams& p, u32 (&a)[4]) {
  for (u32 i = 0; i < 4; ++i) {
    const u32 row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + i % 2 * 8;
    kw::load<4>(p.a + row * 32 + i / 2 * 16 + threadIdx.x % 4 * 4, &a[i]);
  }
}

template <class Of, u32 kColumns, Swizzle kSwizzle, bool kShared, int kLeft = 0, int kRight = 0>
__device__ __forceinline__ void product(const ProductParams& p) {
  constexpr u32 kWide = kSwizzle == Swizzle::kNone ? 16 : 256u >> static_cast<u32>(kSwizzle);
  Sums<Of, kColumns> sums;
  sums.load(p);
  put<Of::kSize>(left_at(), p.a, 64, kWide, kLeft != 0);
  put<Of::kSize>(right_at(), p.b, kColumns, kWide, kRight != 0);
  kw::fence_proxy_async();
  __syncthreads();
  const u64 b = descriptor_of(right_at(), kSwizzle, kWide, kRight != 0);
  kw::wgmma_fence();
  if constexpr (kShared) {
    const u64 a = descriptor_of(left_at(), kSwizzle, kWide, kLeft != 0);
    Of::template multiply<kLeft, kRight>(sums.d, a, b);
  } else {
    u32 a[4];
    load_left<Of>(p, a);
    Of::template multiply<kLeft, kRight>(sums.d, a, b);
  }
  kw::wgmma_commit();
  kw::wgmma_wait<0>();
  kw::wgmma_done(sums.d);
  sums.store(p);
}

#define WGMMA_KERNEL(type, columns, swizzle, left, ...)                                   \
  extern "C" __global__ void __launch_bounds__(128)                                       \
      wgmma_##type##_##columns##_##swizzle##_##left##__VA_ARGS__(const ProductParams p) { \
    product<Of_##type, columns, Swizzle::k##swizzle, WGMMA_LEFT_##left##__VA_ARGS__>(p);  \
  }
#define WGMMA_LEFT_shared true
#define WGMMA_LEFT_registers false
#define WGMMA_LEFT_shared_right true, 0, 1
#define WGMMA_LEFT_shared_left true, 1, 0
#define WGMMA_LEFT_shared_both true, 1, 1
#define WGMMA_LEFT_registers_right false, 0, 1
WGMMA_KERNEL(bf16, 256, 128, shared)
WGMMA_KERNEL(bf16, 256, 128, registers)
WGMMA_KERNEL(bf16, 192, 128, shared, _right)
WGMMA_KERNEL(bf16, 128, 128, shared, _both)
WGMMA_KERNEL(bf16, 8, 64, shared, _left)
WGMMA_KERNEL(f16, 128, 64, shared)
WGMMA_KERNEL(f16, 64, 64, registers, _right)
WGMMA_KERNEL(f16, 32, 32, shared, _both)
WGMMA_KERNEL(f16, 24, None, shared, _both)
WGMMA_KERNEL(f16, 80, None, registers)
WGMMA_KERNEL(e4m3, 128, 128, shared)
WGMMA_KERNEL(e4m3, 16, 32, registers)
WGMMA_KERNEL(s8, 256, 128, shared)
WGMMA_KERNEL(s8, 96, None, shared)
WGMMA_KERNEL(s8, 48, 64, registers)

enum Fault {
  kNoFault,
  kDoesNotWait,
  kWaitsForOneGroup,
  kDoesNotCommit,
  kNoProxyFence,
  kEarlyProxyFence,
  kNoBarrier,
  kNoWgmmaFence,
  kWritesAtOnce,
  kCopiesAtOnce,
  kOneWarpLess,
  kEnds
};

// Stands in for another stage: bytes that come by a copy.
__device__ __forceinline__ void copy_over(const ProductParams& p, u32 to) {
  __shared__ u64 barrier;
  const u32 at = kw::shared_address(&barrier);
  if (threadIdx.x != 0) return;
  kw::barrier_init(at, 1);
  kw::barrier_expect(at, 64);
  kw::copy_bulk(to, reinterpret_cast<const char*>(p.b), 64, at);
  kw::barrier_wait(at, 0);
}

template <Fault kFault>
__device__ __forceinline__ void twice(const ProductParams& p) {
  using Of = Of_bf16;
  Sums<Of, 16> sums;
  sums.load(p);
  if (kFault == kEarlyProxyFence) kw::fence_proxy_async();
  put<2>(left_at(), p.a, 64, 128, false);
  put<2>(right_at(), p.b, 16, 128, false);
  if (kFault != kNoProxyFence && kFault != kEarlyProxyFence) kw::fence_proxy_async();
  if (kFault != kNoBarrier) __syncthreads();
  const u64 a = descriptor_of(left_at(), Swizzle::k128, 128, false);
  const u64 b = descriptor_of(right_at(), Swizzle::k128, 128, false);
  if (kFault != kNoWgmmaFence) kw::wgmma_fence();
  kw::wgmma_bf16(sums.d, a, b, 1);
  kw::wgmma_commit();
  if (kFault != kOneWarpLess || threadIdx.x < 96) kw::wgmma_bf16(sums.d, a, b, 1);
  if (kFault != kDoesNotCommit) kw::wgmma_commit();
  if (kFault == kEnds) return;
  if (kFault == kWritesAtOnce) put<2>(right_at(), p.b, 16, 128, false);
  if (kFault == kCopiesAtOnce) copy_over(p, right_at());
  if (kFault == kWaitsForOneGroup) {
    kw::wgmma_wait<1>();
  } else if (kFault != kDoesNotWait) {
    kw::wgmma_wait<0>();
  }
  kw::wgmma_done(sums.d);
  sums.store(p);
}

#define TWICE_KERNEL(name, fault) \
  extern "C" __global__ void __launch_bounds__(128) name(const ProductParams p) { twice<fault>(p); }
TWICE_KERNEL(right_products, kNoFault)
TWICE_KERNEL(does_not_wait_for_products, kDoesNotWait)
TWICE_KERNEL(waits_for_one_group_too_few, kWaitsForOneGroup)
TWICE_KERNEL(does_not_commit_a_product, kDoesNotCommit)
TWICE_KERNEL(multiplies_without_a_proxy_fence, kNoProxyFence)
TWICE_KERNEL(has_its_proxy_fence_before_it_stores, kEarlyProxyFence)
TWICE_KERNEL(multiplies_before_all_have_stored, kNoBarrier)
TWICE_KERNEL(multiplies_without_a_wgmma_fence, kNoWgmmaFence)
TWICE_KERNEL(writes_what_a_product_reads, kWritesAtOnce)
TWICE_KERNEL(copies_over_what_a_product_reads, kCopiesAtOnce)
TWICE_KERNEL(a_warp_leaves_a_product_out, kOneWarpLess)
TWICE_KERNEL(ends_before_its_products, kEnds)
