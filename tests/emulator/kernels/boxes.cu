// SPDX-License-Identifier: MIT
// Copies of boxes of matrices that the driver was told of (cp.async.bulk.tensor): 24 rows of 16 floats in boxes of 8
// rows of 4, and 24 rows of 128 bytes in boxes of 8 whole rows, swizzled. A kernel gives the box at a place of the
// first, or the bytes of one of the second, four a word. Those named after a fault have it, and nothing else wrong.
#include "device/ptx/bulk.cuh"
#include "device/ptx/shared.cuh"
#include "device/ptx/tma.cuh"
#include "device/reduce.cuh"
#include "device/tensor_map.h"

struct BoxParams {
  KwTensorMap floats, bytes;
  unsigned* out;
};

using kw::u32;
using kw::u64;

#define BOX_KERNEL(name) extern "C" __global__ void __launch_bounds__(64) name(const __grid_constant__ BoxParams p)

#ifdef KW_HAS_TMA
constexpr u32 kColumn = 8, kRow = 4, kBytes = 8 * 4 * 4;

template <bool kWaits = true, bool kAgain = false>
__device__ __forceinline__ void box(const void* map, u32* out, u32 column, u32 row, u32 bytes, u32 off = 0) {
  __shared__ __align__(128) u32 kept[64];
  __shared__ u64 barrier;
  const u32 at = kw::shared_address(&barrier);
  if (threadIdx.x == 0) {
    kw::barrier_init(at, 1);
    kw::barriers_are_there();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    kw::barrier_expect(at, bytes);
    kw::tma_load(kw::shared_address(kept) + off, map, {column, row}, at);
  }
  if (kWaits) kw::barrier_wait(at, 0);
  if (kAgain) __syncthreads();
  out[threadIdx.x] = kept[threadIdx.x];
  if (!kAgain || threadIdx.x != 0) return;
  kw::barrier_expect(at, bytes);
  kw::tma_load(kw::shared_address(kept), map, {column, row}, at);
  kw::barrier_wait(at, 1);
}
BOX_KERNEL(right_box) { box(&p.floats, p.out, kColumn, kRow, kBytes); }
BOX_KERNEL(copies_the_box_beside) { box(&p.floats, p.out, kColumn + 4, kRow, kBytes); }
BOX_KERNEL(copies_the_box_below) { box(&p.floats, p.out, kColumn, kRow + 8, kBytes); }
BOX_KERNEL(exchanges_column_and_row) { box(&p.floats, p.out, kRow, kColumn, kBytes); }
BOX_KERNEL(copies_a_box_past_the_end) { box(&p.floats, p.out, kColumn, 24, kBytes); }
BOX_KERNEL(copies_a_box_off_16_bytes) { box(&p.floats, p.out, kColumn + 1, kRow, kBytes); }
BOX_KERNEL(copies_a_box_off_128_bytes) { box(&p.floats, p.out, kColumn, kRow, kBytes, 16); }
BOX_KERNEL(expects_more_of_a_box) { box(&p.floats, p.out, kColumn, kRow, kBytes + 16); }
BOX_KERNEL(expects_less_of_a_box) { box(&p.floats, p.out, kColumn, kRow, kBytes - 16); }
BOX_KERNEL(does_not_wait_for_a_box) { box<false>(&p.floats, p.out, kColumn, kRow, kBytes); }
BOX_KERNEL(copies_a_box_over_what_others_read) { box<true, true>(&p.floats, p.out, kColumn, kRow, kBytes); }
BOX_KERNEL(copies_a_box_of_nothing_described) { box(&p.out, p.out, kColumn, kRow, kBytes); }

// Of eight rows, the words at one place of each of four: 16 bytes lie where the row's number says.
template <bool kSwizzled>
__device__ __forceinline__ void swizzled_box(const BoxParams& p) {
  __shared__ __align__(1024) u32 kept[8][32];
  __shared__ u64 barrier;
  const u32 at = kw::shared_address(&barrier), row = threadIdx.x / 4, word = threadIdx.x % 4;
  if (threadIdx.x == 0) {
    kw::barrier_init(at, 1);
    kw::barriers_are_there();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    kw::barrier_expect(at, sizeof kept);
    kw::tma_load(kw::shared_address(kept), &p.bytes, {0, kRow}, at);
  }
  kw::barrier_wait(at, 0);
  p.out[threadIdx.x] = kept[row][(2 ^ (kSwizzled ? row : 0)) * 4 + word];
}
BOX_KERNEL(right_swizzled_box) { swizzled_box<true>(p); }
BOX_KERNEL(reads_a_swizzled_box_as_it_was) { swizzled_box<false>(p); }
#endif
