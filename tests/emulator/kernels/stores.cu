// SPDX-License-Identifier: MIT
// TMA on its way back and to other blocks, and what goes with it: boxes of tensors of floats of 2 to 5 dimensions from
// `from` to the same place of `to`, partly outside both. Those named after a fault have it, and nothing else wrong.
#include "device/ptx/bulk.cuh"
#include "device/ptx/fence.cuh"
#include "device/ptx/matrix.cuh"
#include "device/ptx/memory.cuh"
#include "device/ptx/registers.cuh"
#include "device/ptx/shared.cuh"
#include "device/ptx/stmatrix.cuh"
#include "device/ptx/sync.cuh"
#include "device/ptx/tma.cuh"
#include "device/tensor_map.h"

struct StoreParams {
  KwTensorMap from, to;
  const float* in;
  float* out;
};

using kw::u32;
using kw::u64;

// How they are launched: 32 threads; the tensors have 2 dimensions, or as many as the name ends in. Or two blocks of a
// cluster; or 384 threads.
#define STORE_KERNEL(name) extern "C" __global__ void __launch_bounds__(32) name(const __grid_constant__ StoreParams p)
#define PAIR_KERNEL(name) STORE_KERNEL(name)
#define WIDE_KERNEL(name) extern "C" __global__ void __launch_bounds__(384) name(const __grid_constant__ StoreParams p)

constexpr u32 kFloats = 8 * 4 * 2 * 2 * 2;
constexpr u32 kColumn = 4;  // of the box's first element, in the fastest dimension; 3 in the next, 1 in the others

__device__ __forceinline__ u32 box_room() {
  __shared__ __align__(128) float room[kFloats];
  return kw::shared_address(room);
}

__device__ __forceinline__ u32 made_barrier(u32 arrivals) {
  __shared__ u64 barrier;
  const u32 at = kw::shared_address(&barrier);
  if (threadIdx.x == 0) {
    kw::barrier_init(at, arrivals);
    kw::barriers_are_there();
  }
  __syncthreads();
  return at;
}

template <u32 kRank>
__device__ __forceinline__ void there_and_back(const StoreParams& p) {
  const u32 room = box_room(), barrier = made_barrier(1);
  u32 at[kRank], bytes = 4 * 8 * 4;
  for (u32 d = 0; d < kRank; ++d) at[d] = d == 0 ? kColumn : d == 1 ? 3 : 1;
  for (u32 d = 2; d < kRank; ++d) bytes *= 2;
  if (threadIdx.x != 0) return;
  kw::prefetch_tensor_map(&p.from);
  kw::barrier_expect(barrier, bytes);
  kw::tma_load(room, &p.from, at, barrier);
  kw::barrier_wait(barrier, 0);
  kw::tma_store(&p.to, at, room);
  kw::bulk_commit();
  kw::bulk_wait_read<0>();
}
STORE_KERNEL(right_store_2) { there_and_back<2>(p); }
STORE_KERNEL(right_store_3) { there_and_back<3>(p); }
STORE_KERNEL(right_store_4) { there_and_back<4>(p); }
STORE_KERNEL(right_store_5) { there_and_back<5>(p); }

enum Fault { kNoFault, kNoProxyFence, kNoCommit, kNoWait, kWritesAtOnce, kNoBarrier };

// By ordinary loads and stores to shared memory.
template <Fault kFault, class Store>
__device__ __forceinline__ void by_hand(const StoreParams& p, Store store) {
  const u32 room = box_room(), row = 3 + threadIdx.x / 8, column = kColumn + threadIdx.x % 8;
  u32 word[1] = {};
  if (row < 6) kw::load<4>(p.in + row * 16 + column, word);
  kw::store_shared<4>(room + threadIdx.x * 4, word);
  if (kFault != kNoProxyFence) kw::fence_proxy_async();
  if (kFault != kNoBarrier) __syncwarp();
  if (threadIdx.x == 0) {
    store(room);
    if (kFault != kNoCommit) kw::bulk_commit();
    if (kFault != kNoWait && kFault != kWritesAtOnce) kw::bulk_wait_read<0>();
  }
  __syncwarp();
  if (kFault == kWritesAtOnce) kw::store_shared<4>(room + threadIdx.x * 4, word);
  if (kFault == kWritesAtOnce && threadIdx.x == 0) kw::bulk_wait<0>();
}

template <Fault kFault>
__device__ __forceinline__ void box_by_hand(const StoreParams& p) {
  const u32 at[2] = {kColumn, 3};
  by_hand<kFault>(p, [&](u32 room) { kw::tma_store(&p.to, at, room); });
}
STORE_KERNEL(right_store_by_hand) { box_by_hand<kNoFault>(p); }
STORE_KERNEL(stores_without_a_proxy_fence) { box_by_hand<kNoProxyFence>(p); }
STORE_KERNEL(does_not_commit_a_store) { box_by_hand<kNoCommit>(p); }
STORE_KERNEL(does_not_wait_for_a_store) { box_by_hand<kNoWait>(p); }
STORE_KERNEL(writes_what_a_store_reads) { box_by_hand<kWritesAtOnce>(p); }
STORE_KERNEL(stores_before_all_have_written) { box_by_hand<kNoBarrier>(p); }

// What is there is zeros.
STORE_KERNEL(right_store_reduced) {
  const u32 at[2] = {kColumn, 3};
  by_hand<kNoFault>(p, [&](u32 room) { kw::tma_reduce_add(&p.to, at, room); });
}
STORE_KERNEL(right_store_of_bytes) {
  by_hand<kNoFault>(p, [&](u32 room) {
    for (u32 row = 0; row < 3; ++row) kw::bulk_store(p.out + (3 + row) * 16 + kColumn, room + row * 32, 32);
  });
}
STORE_KERNEL(right_store_of_bytes_reduced) {
  by_hand<kNoFault>(p, [&](u32 room) {
    for (u32 row = 0; row < 3; ++row) kw::bulk_reduce_add(p.out + (3 + row) * 16 + kColumn, room + row * 32, 32);
  });
}

// Matrices of 8 x 8 elements of 16 bits, four: what the lanes have of them goes to shared memory and back by rows.
template <bool kTransposed, bool kWaits>
__device__ __forceinline__ void through_matrices(const StoreParams& p) {
  const u32 room = box_room(), lane = threadIdx.x, at[2] = {kColumn, 3};
  u32 word[4], row[4];
  for (u32 i = 0; i < 4; ++i) {
    u32 half[2];
    for (u32 j = 0; j < 2; ++j) {
      // The element of matrix i that this lane has: as floats, a row of 8 elements is 4 of them.
      const u32 of_row = kTransposed ? lane % 4 * 2 + j : lane / 4,
                of_column = kTransposed ? lane / 4 : lane % 4 * 2 + j;
      const u32 flat = i * 32 + of_row * 4 + of_column / 2, from = (3 + flat / 8) * 16 + kColumn + flat % 8;
      u32 all[1] = {};
      if (flat < 24) kw::load<4>(p.in + from, all);
      half[j] = of_column % 2 == 0 ? all[0] & 0xffffu : all[0] >> 16;
    }
    word[i] = half[0] | half[1] << 16;
  }
  if (kTransposed) {
    kw::store_matrices_transposed(room + lane * 16, word);
  } else {
    kw::store_matrices(room + lane * 16, word);
  }
  if (kWaits) __syncwarp();
  kw::load_shared<16>(room + (lane + 1) % 32 * 16, row);
  __syncwarp();
  kw::store_shared<16>(room + (lane + 1) % 32 * 16, row);
  kw::fence_proxy_async();
  __syncwarp();
  if (lane != 0) return;
  kw::tma_store(&p.to, at, room);
  kw::bulk_commit();
  kw::bulk_wait_read<0>();
}
STORE_KERNEL(right_store_of_matrices) { through_matrices<false, true>(p); }
STORE_KERNEL(right_store_of_transposed_matrices) { through_matrices<true, true>(p); }
STORE_KERNEL(lacks_a_barrier_after_matrices) { through_matrices<false, false>(p); }

// Each block copies the box to both, which have half of the rows to store: so each one's barrier counts two boxes. The
// first block waits until the other is done with its own half.
template <bool kExpectsBoth, u32 kBlocks, bool kTells>
__device__ __forceinline__ void to_both(const StoreParams& p) {
  __shared__ __align__(128) float rooms[2][32];
  __shared__ u64 empty;
  const u32 rank = blockIdx.x, full = made_barrier(1), at[2] = {kColumn, 3};
  if (threadIdx.x == 0) kw::barrier_init(kw::shared_address(&empty), 1);
  kw::barriers_are_there();
  kw::cluster_arrive_after_all();
  kw::cluster_wait();
  if (threadIdx.x == 0) {
    kw::barrier_expect(full, kExpectsBoth ? 256 : 128);
    kw::tma_load_multicast(kw::shared_address(rooms[rank]), &p.from, at, full, kBlocks);
  }
  kw::barrier_wait(full, 0);
  const u32 row = threadIdx.x / 8, column = threadIdx.x % 8;
  if (row < 3 && row % 2 == rank) p.out[(3 + row) * 16 + kColumn + column] = rooms[1 - rank][row * 8 + column];
  __syncwarp();
  if (threadIdx.x == 0 && rank == 1 && kTells) {
    kw::barrier_arrive_cluster(kw::address_in_cluster(kw::shared_address(&empty), 0));
  }
  if (rank == 0) kw::barrier_wait(kw::shared_address(&empty), 0);
}
PAIR_KERNEL(right_multicast) { to_both<true, 3, true>(p); }
PAIR_KERNEL(expects_its_own_copy_alone) { to_both<false, 3, true>(p); }
PAIR_KERNEL(copies_to_a_block_that_is_not_there) { to_both<true, 5, true>(p); }
PAIR_KERNEL(does_not_tell_the_other_block) { to_both<true, 3, false>(p); }

// One warpgroup copies, the two others have its registers.
template <int kTaken, u32 kReleasing>
__device__ __forceinline__ void with_registers(const StoreParams& p) {
  if (threadIdx.x < 128) {
    if (threadIdx.x < kReleasing) kw::release_registers<40>();
  } else {
    kw::take_registers<kTaken>();
    const u32 i = threadIdx.x - 128, row = 3 + i / 8, column = kColumn + i % 8;
    if (i < 24) p.out[row * 16 + column] = p.in[row * 16 + column];
  }
}
WIDE_KERNEL(right_registers) { with_registers<232, 128>(p); }
WIDE_KERNEL(takes_registers_that_nobody_releases) { with_registers<232, 96>(p); }
WIDE_KERNEL(takes_fewer_registers_than_it_has) { with_registers<160, 128>(p); }
