// SPDX-License-Identifier: MIT
// Kernels that show what the emulator sees. Each moves every element to the place before it, the first one to the end:
// out[i] = in[(i + 1) % count]. Those named after a fault have it, and nothing else wrong.
#include "device/ptx/async.cuh"
#include "device/ptx/memory.cuh"
#include "device/ptx/shared.cuh"
#include "device/ptx/sync.cuh"
#include "device/reduce.cuh"

struct MachineParams {
  const float* in;
  float* out;
  int count;
};

using kw::u32;
using kw::u64;

// How a kernel is launched: 64 threads, or one warp, or as one that may begin before the kernel before it has ended, or
// two blocks of a cluster with half of the threads each.
#define BLOCK_KERNEL(name) extern "C" __global__ void __launch_bounds__(64) name(const MachineParams p)
#define WARP_KERNEL(name) BLOCK_KERNEL(name)
#define OVERLAPPING_KERNEL(name) BLOCK_KERNEL(name)
#define CLUSTER_KERNEL(name) BLOCK_KERNEL(name)

__device__ __forceinline__ float value_at(const MachineParams& p, u32 index) {
  u32 word;
  kw::load<4>(p.in + index, &word);
  return kw::float_of_bits(word);
}

__device__ __forceinline__ void put(const MachineParams& p, u32 index, float value) {
  const u32 word = kw::bits_of_float(value);
  kw::store<4>(p.out + index, &word);
}

__device__ __forceinline__ u32 after(const MachineParams& p, u32 index) { return (index + 1) % p.count; }

BLOCK_KERNEL(right_loads) { put(p, threadIdx.x, value_at(p, after(p, threadIdx.x))); }
BLOCK_KERNEL(reads_past_the_end) { put(p, threadIdx.x, value_at(p, threadIdx.x + 1)); }
BLOCK_KERNEL(reads_before_the_beginning) { put(p, threadIdx.x, value_at({p.in - 1, p.out, p.count}, threadIdx.x)); }
BLOCK_KERNEL(plainly_reads_past_the_end) { p.out[threadIdx.x] = p.in[threadIdx.x + 1]; }
BLOCK_KERNEL(reads_what_was_never_written) { p.out[threadIdx.x] += p.in[after(p, threadIdx.x)]; }
BLOCK_KERNEL(writes_its_input) { const_cast<float*>(p.in)[threadIdx.x] = 0.0f; }
BLOCK_KERNEL(prefetches_past_the_end) {
  put(p, threadIdx.x, p.in[after(p, threadIdx.x)]);
  const u32 bytes = (p.count + 4) * sizeof(float);
  if (threadIdx.x == 0) asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(p.in), "r"(bytes) : "memory");
}
BLOCK_KERNEL(loads_a_vector_off_16_bytes) {
  u32 word[4];
  kw::load<16>(p.in + 1, word);
  put(p, threadIdx.x, kw::float_of_bits(word[threadIdx.x % 4]));
}

template <bool kWaits>
__device__ __forceinline__ void through_shared(const MachineParams& p) {
  __shared__ float kept[256];
  kept[threadIdx.x] = p.in[threadIdx.x];
  if (kWaits) __syncthreads();
  p.out[threadIdx.x] = kept[after(p, threadIdx.x)];
}
BLOCK_KERNEL(right_shared) { through_shared<true>(p); }
BLOCK_KERNEL(lacks_a_barrier) { through_shared<false>(p); }
// Twice the same: what others still read is not to be written.
template <bool kWaits>
__device__ __forceinline__ void there_and_back(const MachineParams& p) {
  __shared__ float kept[64];
  kept[threadIdx.x] = p.in[threadIdx.x];
  kw::barrier_of(1, 64);
  const float next = kept[after(p, threadIdx.x)];
  if (kWaits) kw::barrier_of(1, 64);
  kept[threadIdx.x] = next;
  p.out[threadIdx.x] = kept[threadIdx.x];
}
BLOCK_KERNEL(right_twice) { there_and_back<true>(p); }
BLOCK_KERNEL(overwrites_what_others_read) { there_and_back<false>(p); }

#ifdef KW_HAS_CLUSTER
// A thread arrives at a barrier with what it has written, the others wait there.
template <bool kWaits, bool kArrivesLast>
__device__ __forceinline__ void from_one_to_all(const MachineParams& p) {
  __shared__ float kept[64];
  __shared__ u64 barrier;
  if (threadIdx.x == 0) kw::barrier_init(&barrier);
  __syncthreads();
  if (threadIdx.x == 0) {
    if (!kArrivesLast) kw::barrier_expect(&barrier, 0);
    for (int i = 0; i < p.count; ++i) {
      const u32 word = kw::bits_of_float(p.in[i]);
      kw::store_shared<4>(kw::shared_address(kept + i), &word);
    }
    if (kArrivesLast) kw::barrier_expect(&barrier, 0);
  }
  if (kWaits) kw::barrier_wait_shared(&barrier, 0);
  p.out[threadIdx.x] = kept[after(p, threadIdx.x)];
}
BLOCK_KERNEL(right_arrival) { from_one_to_all<true, true>(p); }
BLOCK_KERNEL(does_not_wait_for_an_arrival) { from_one_to_all<false, true>(p); }
BLOCK_KERNEL(arrives_before_it_writes) { from_one_to_all<true, false>(p); }
#endif

// A shuffle waits for the lanes, but what they wrote may come later.
template <bool kWaits>
__device__ __forceinline__ void from_lane_to_lane(const MachineParams& p) {
  __shared__ float kept[32];
  kept[threadIdx.x] = p.in[threadIdx.x];
  kw::shuffle_from(0.0f, 0);
  if (kWaits) __syncwarp();
  p.out[threadIdx.x] = kept[after(p, threadIdx.x)];
}
WARP_KERNEL(right_warp) { from_lane_to_lane<true>(p); }
WARP_KERNEL(lacks_a_barrier_of_the_warp) { from_lane_to_lane<false>(p); }

BLOCK_KERNEL(reads_past_shared) {
  __shared__ float kept[64];
  kept[threadIdx.x] = p.in[threadIdx.x];
  __syncthreads();
  p.out[threadIdx.x] = kept[threadIdx.x + 1];
}

WARP_KERNEL(right_shuffle) { put(p, threadIdx.x, kw::shuffle_from(value_at(p, threadIdx.x), threadIdx.x + 1)); }
WARP_KERNEL(leaves_a_lane_out) {
  const float mine = value_at(p, threadIdx.x);
  float other = mine;
  if (threadIdx.x != 7) other = kw::shuffle_from(mine, threadIdx.x + 1);
  __syncthreads();
  put(p, threadIdx.x, other);
}
WARP_KERNEL(a_lane_ends_early) {
  if (threadIdx.x == 7) return;
  put(p, threadIdx.x, kw::shuffle_from(value_at(p, threadIdx.x), threadIdx.x + 1));
}
BLOCK_KERNEL(waits_at_different_barriers) {
  if (threadIdx.x < 32) {
    kw::barrier_of(1, 64);
  } else {
    __syncthreads();
  }
  put(p, threadIdx.x, value_at(p, after(p, threadIdx.x)));
}

// Each thread copies 16 bytes.
template <bool kWaits, bool kMeets>
__device__ __forceinline__ void through_copies(const MachineParams& p) {
  __shared__ __align__(16) float kept[256];
  if (threadIdx.x * 4 < p.count) {
    kw::copy_async(kw::shared_address(kept + threadIdx.x * 4), reinterpret_cast<const char*>(p.in + threadIdx.x * 4),
                   16);
  }
  kw::copies_commit();
  if (kWaits) kw::copies_wait<0>();
  if (kMeets) __syncthreads();
  p.out[threadIdx.x] = kept[after(p, threadIdx.x)];
}
BLOCK_KERNEL(right_copies) { through_copies<true, true>(p); }
BLOCK_KERNEL(does_not_wait_for_copies) { through_copies<false, true>(p); }
BLOCK_KERNEL(waits_for_its_own_copies_alone) { through_copies<true, false>(p); }

OVERLAPPING_KERNEL(right_overlap) {
  kw::wait_for_previous_kernel();
  put(p, threadIdx.x, value_at(p, after(p, threadIdx.x)));
}
OVERLAPPING_KERNEL(begins_too_early) {
  const float value = value_at(p, after(p, threadIdx.x));
  kw::wait_for_previous_kernel();
  put(p, threadIdx.x, value);
}
OVERLAPPING_KERNEL(never_waits_for_the_kernel_before) {
  if (threadIdx.x == 0) kw::wait_for_previous_kernel();
}

#ifdef KW_HAS_CLUSTER
// Two blocks: an element goes where the thread before has its own, be it in the other block.
template <bool kBegins, bool kWaits>
__device__ __forceinline__ void through_cluster(const MachineParams& p) {
  __shared__ float kept[64];
  __shared__ u64 barrier;
  if (threadIdx.x == 0) {
    kw::barrier_init(&barrier);
    kw::barrier_expect(&barrier, blockDim.x * 4);
  }
  if (kBegins) {
    kw::cluster_arrive();
    kw::cluster_wait();
  }
  const u32 index = blockIdx.x * blockDim.x + threadIdx.x, to = (index + p.count - 1) % p.count;
  kw::store_async(&kept[to % blockDim.x], &barrier, to / blockDim.x, value_at(p, index));
  if (kWaits) kw::barrier_wait_shared(&barrier, 0);
  put(p, index, kept[threadIdx.x]);
}
// In a launch without clusters.
BLOCK_KERNEL(writes_as_a_cluster_and_is_none) { through_cluster<true, true>(p); }
CLUSTER_KERNEL(right_cluster) { through_cluster<true, true>(p); }
CLUSTER_KERNEL(writes_to_a_block_before_it_begins) { through_cluster<false, true>(p); }
CLUSTER_KERNEL(does_not_wait_for_other_blocks) { through_cluster<true, false>(p); }
#endif
