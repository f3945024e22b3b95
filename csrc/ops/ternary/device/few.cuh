// SPDX-License-Identifier: MIT
// y = x * weight^T of up to 32 rows of x: the weight is read once, by warps that each have a run of its blocks and
// keep eight loads on their way; x is in shared memory, in the order in which lanes take it.
//
// A block's words are left matrices of mma.m16n8k32 as they are: the two bits at one place of a byte are a code times
// a power of four, and have sums of their own, which are multiples of that power. A code is w + 1, so that the sum of
// each row of x is taken off at the end.
#pragma once

#include "device/ptx/dot.cuh"
#include "device/ptx/hints.cuh"
#include "device/ptx/matrix.cuh"
#include "device/ptx/sync.cuh"
#include "device/reduce.cuh"
#include "ops/ternary/device/end.cuh"

#if defined(KW_HAS_INT8_MMA) && defined(KW_HAS_CP_ASYNC)

namespace kw {

__device__ __forceinline__ char* ternary_shared() {
  extern __shared__ __align__(128) char room[];
  return room;
}

// What a warp multiplies without a look at where it is: up to eight blocks of one group.
struct TernaryRun {
  u32 group, block;
  u32 count;  // of blocks; 0 after the last
  u32 there;  // of which so many are there: the last chunk may have fewer
  u32 left;   // of the warp's, these among them
};

template <u32 kTiles>
struct TernaryFew {
  static constexpr u32 kWarps = kTiles == 4 ? KW_TERNARY_FEW_WARPS / 2 : KW_TERNARY_FEW_WARPS, kLoads = 8,
                       kThreads = kWarps * 32;
  static constexpr u32 kRows = kTiles * 8, kEach = kWarps > kRows ? kWarps / kRows : 1;  // warps that bring a row of x
  static constexpr u32 kSlotPitch = KW_TERNARY_FEW_PITCH, kSlotBytes = kRows * kSlotPitch * 4;
  using Sums = int[kTiles][KW_TERNARY_STEPS][4];
  const KwMatmulTernaryFewParams& p;
  u32 first_group, groups;           // of this block of threads
  u32 begin, end;                    // of this warp: places in groups * chunk_blocks
  u32 x_pitch, sums, slots, x_room;  // of shared memory: a row's sum, partial sums, x

  __device__ __forceinline__ explicit TernaryFew(const KwMatmulTernaryFewParams& p) : p(p) {
    first_group = static_cast<u32>(u64{p.groups} * blockIdx.x / gridDim.x);
    groups = static_cast<u32>(u64{p.groups} * (blockIdx.x + 1) / gridDim.x) - first_group;
    begin = bound(warp());
    end = bound(warp() + 1);
    x_pitch = p.chunk_blocks * KW_TERNARY_DEPTH + 16;
    sums = shared_address(ternary_shared());
    x_room = sums + kRows * kEach * 4;
    slots = x_room + kRows * x_pitch;
  }

  __device__ __forceinline__ static u32 warp() { return threadIdx.x / 32; }
  __device__ __forceinline__ u32 bound(u32 warp) const {
    return static_cast<u32>(u64{groups} * p.chunk_blocks * warp / kWarps);
  }

  __device__ __forceinline__ TernaryRun first_run(u32 chunk) const {
    return sized({begin / p.chunk_blocks, begin % p.chunk_blocks, 0, 0, end - begin}, chunk);
  }

  __device__ __forceinline__ TernaryRun next_run(const TernaryRun& at, u32 chunk) const {
    const u32 block = at.block + at.count;
    const bool over = block == p.chunk_blocks;
    return sized({at.group + over, over ? 0 : block, 0, 0, at.left - at.count}, chunk);
  }

  __device__ __forceinline__ TernaryRun sized(TernaryRun run, u32 chunk) const {
    const u32 inside = p.chunk_blocks - run.block, most = inside < kLoads ? inside : kLoads;
    const u32 block = chunk * p.chunk_blocks + run.block, there = block < p.blocks ? p.blocks - block : 0;
    run.count = run.left < most ? run.left : most;
    run.there = run.count < there ? run.count : there;
    return run;
  }

  __device__ __forceinline__ const char* place(const TernaryRun& run, u32 chunk) const {
    const u64 block = u64{first_group + run.group} * p.blocks + chunk * p.chunk_blocks + run.block;
    return p.packed + block * KW_TERNARY_BLOCK + threadIdx.x % 32 * 16;
  }

  // Four bytes of x; what is past its end is 0.
  __device__ __forceinline__ u32 x_word(u32 row, u32 k) const {
    const char* const from = p.x + row * p.x_pitch + k;
    u32 word[1] = {0};
    if (row >= p.end.m || k >= p.k) return 0;
    if (p.words != 0 && k + 4 <= p.k) {
      load<4>(from, word);
      return word[0];
    }
    u32 all = 0;
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      if (k + i >= p.k) continue;
      load<1>(from + i, word);
      all |= word[0] << (i * 8);
    }
    return all;
  }

  // A chunk of x to shared memory: of each 128 of k a lane's eight words side by side. Warps take rows in turn, two of
  // which a row of few may have, and count what a row sums up to.
  __device__ __forceinline__ void stage(u32 chunk) const {
    const u32 words = p.chunk_blocks * (KW_TERNARY_DEPTH / 4), lane = threadIdx.x % 32;
#pragma unroll 1
    for (u32 row = warp() / kEach; row < kRows; row += kWarps / kEach) {
      int sum = 0;
#pragma unroll 4
      for (u32 i = warp() % kEach * 32 + lane; i < words; i += kEach * 32) {
        const u32 k = i % 32, word[1] = {x_word(row, (chunk * p.chunk_blocks * 32 + i) * 4)};
        sum = dot4(word[0], 0x01010101, sum);
        store_shared<4>(x_room + row * x_pitch + (i - k + k % 4 * 8 + k / 8 * 2 + k / 4 % 2) * 4, word);
      }
      add_to_sum(row * kEach + warp() % kEach, sum, chunk > 0);
    }
  }

  // Each warp of a row has a place of its own for what it saw of it.
  __device__ __forceinline__ void add_to_sum(u32 place, int sum, bool add) const {
#pragma unroll
    for (u32 mask = 16; mask > 0; mask /= 2) sum += static_cast<int>(shuffle_word(static_cast<u32>(sum), mask));
    if (threadIdx.x % 32 != 0) return;
    u32 word[1] = {0};
    if (add) load_shared<4>(sums + place * 4, word);
    word[0] += static_cast<u32>(sum);
    store_shared<4>(sums + place * 4, word);
  }

  __device__ __forceinline__ static u32 shuffle_word(u32 value, u32 mask) {
    u32 other;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(other) : "r"(value), "r"(mask));
    return other;
  }

  __device__ __forceinline__ static void clear(Sums& d) {
#pragma unroll
    for (u32 i = 0; i < kTiles * 16; ++i) d[i / 16][i / 4 % 4][i % 4] = 0;
  }

  // `x_at`: this lane's words of the block in the first row of x that it has.
  __device__ __forceinline__ void multiply(Sums& d, const u32 (&word)[4], u32 x_at) const {
    const u32 lane = threadIdx.x % 32;
#pragma unroll
    for (u32 tile = 0; tile < kTiles; ++tile) {
      u32 x[8] = {};
      if (tile * 8 + lane / 4 < p.end.m) {
        load_shared<16>(x_at + tile * 8 * x_pitch, x);
        load_shared<16>(x_at + tile * 8 * x_pitch + 16, x + 4);
      }
#pragma unroll
      for (u32 step = 0; step < KW_TERNARY_STEPS; ++step) {
        const u32 mask = 0x03030303u << (step * 2);
        const u32 a[4] = {word[0] & mask, word[1] & mask, word[2] & mask, word[3] & mask};
        multiply_uint8(d[tile][step], a, x[step * 2], x[step * 2 + 1]);
      }
    }
  }

  // A warp's sums of a group: their slot is one that no other warp has, as runs of warps follow each other.
  __device__ __forceinline__ void flush(Sums& d, u32 group, bool add) const {
    const u32 lane = threadIdx.x % 32, slot = slots + (group + warp()) * kSlotBytes;
#pragma unroll
    for (u32 tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (u32 i = 0; i < 4; ++i) {
        const u32 to = slot + ((tile * 8 + lane % 4 * 2 + i % 2) * kSlotPitch + lane / 4 + i / 2 * 8) * 4;
        u32 before[1] = {0};
        if (add) load_shared<4>(to, before);
        int sum = static_cast<int>(before[0]);
#pragma unroll
        for (u32 step = 0; step < KW_TERNARY_STEPS; ++step) sum += d[tile][step][i] >> (step * 2);
        const u32 word[1] = {static_cast<u32>(sum)};
        store_shared<4>(to, word);
      }
    }
    clear(d);
  }

  __device__ __forceinline__ void finish() const {
    const u32 columns = groups * 16, count = columns * p.end.m;
#pragma unroll 1
    for (u32 i = threadIdx.x; i < count; i += kThreads) {
      const u32 row = i / columns, at = i % columns, group = at / 16, column = first_group * 16 + at;
      if (column >= p.end.n) continue;
      u32 word[1];
      int sum = 0;
#pragma unroll
      for (u32 each = 0; each < kEach; ++each) {
        load_shared<4>(sums + (row * kEach + each) * 4, word);
        sum -= static_cast<int>(word[0]);
      }
      const u32 whole = groups * p.chunk_blocks, from = group * p.chunk_blocks, to = from + p.chunk_blocks;
      u32 w = static_cast<u32>(u64{from} * kWarps / whole);
      while (w > 0 && bound(w) > from) --w;
#pragma unroll 1
      for (; w < kWarps && bound(w) < to; ++w) {
        if (bound(w + 1) <= from || bound(w + 1) == bound(w)) continue;
        load_shared<4>(slots + (group + w) * kSlotBytes + (row * kSlotPitch + at % 16) * 4, word);
        sum += static_cast<int>(word[0]);
      }
      ternary_put(p.end, row, column, sum, ternary_row_scale(p.end, row));
    }
  }

  // The chunk's blocks of this warp: as one has been multiplied, the load of one of the next run takes its registers.
  __device__ __forceinline__ void run_chunk(u32 chunk, u32 (&word)[kLoads][4]) const {
    const u32 lane = threadIdx.x % 32, x_lane = x_room + lane / 4 * x_pitch + lane % 4 * 32;
    TernaryRun at = first_run(chunk);
    Sums d;
    clear(d);
#pragma unroll 1
    while (at.count > 0) {
      const TernaryRun next = next_run(at, chunk);
      const char* const from = place(next, chunk);
      const u32 x_at = x_lane + at.block * KW_TERNARY_DEPTH;
#pragma unroll
      for (u32 s = 0; s < kLoads; ++s) {
        if (s < at.there) multiply(d, word[s], x_at + s * KW_TERNARY_DEPTH);
        if (s < next.there) load_once(from + s * KW_TERNARY_BLOCK, word[s]);
      }
      if (next.group != at.group || next.count == 0) flush(d, at.group, chunk > 0);
      at = next;
    }
  }

  // While the kernels ahead still run: the lines that the warp begins with, which lie together.
  __device__ __forceinline__ void bring_to_l2() const {
    constexpr u32 kLine = 128, kMost = 4;
    const char* const from = place(first_run(0), 0) - threadIdx.x % 32 * 16;
    const u32 lines = (end - begin) * (KW_TERNARY_BLOCK / kLine);
#pragma unroll
    for (u32 i = 0; i < kMost; ++i) {
      const u32 line = i * 32 + threadIdx.x % 32;
      if (line < lines && p.chunk_blocks == p.blocks) prefetch(from + line * kLine);
    }
  }

  __device__ __forceinline__ void run() const {
    allow_next_kernel();
    const u32 chunks = p.blocks > p.chunk_blocks ? (p.blocks + p.chunk_blocks - 1) / p.chunk_blocks : 1;
#pragma unroll 1
    for (u32 chunk = 0; chunk < chunks; ++chunk) {
      if (chunk == 0) {
        bring_to_l2();
        wait_for_previous_kernel();
      }
      u32 word[kLoads][4];
      const TernaryRun first = first_run(chunk);
      const char* const from = place(first, chunk);
#pragma unroll
      for (u32 s = 0; s < kLoads; ++s) {
        if (s < first.there) load_once(from + s * KW_TERNARY_BLOCK, word[s]);
      }
      __syncthreads();  // x of the chunk before has been read
      stage(chunk);
      __syncthreads();
      run_chunk(chunk, word);
    }
    __syncthreads();
    finish();
  }
};

}  // namespace kw

#endif
