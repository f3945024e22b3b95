// SPDX-License-Identifier: MIT
// y = x * weight^T of up to 32 rows of x: the weight is read once, by warps that each have a run of its blocks and keep
// several copies of one to shared memory on their way (loads to registers would share the few scoreboards of a warp:
// one that is waited for would have all wait); x is in shared memory, in the order in which lanes take it.
//
// A block's words are left matrices of mma.m16n8k32 as they are: the two bits at one place of a byte are a code times
// a power of four, and have sums of their own, which are multiples of that power. A code is w + 1, so that the sum of
// each row of x is taken off at the end.
#pragma once

#include "device/ptx/async.cuh"
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

// Which of its blocks a warp is at.
struct TernaryAt {
  u32 group, block;  // of the block of threads; of the chunk
};

// Rows of x that are codes already.
struct TernaryRows {
  static constexpr u32 kUnroll = 2;
  const KwMatmulTernaryFewParams& p;

  // Before pieces are asked for; with the address of the shared memory behind all other.
  template <u32 kWarps>
  __device__ __forceinline__ void prepare(u32) const {}

  // 16 bytes of x; what is past its end is 0.
  __device__ __forceinline__ void piece(u32 row, u32 k, u32 (&word)[4]) const {
    const char* const from = p.x + row * p.x_pitch + k;
    if (p.vectors != 0 && k + 16 <= p.k) return load<16>(from, word);
#pragma unroll
    for (u32 i = 0; i < 16; ++i) {
      u32 byte[1] = {0};
      if (k < p.k && i < p.k - k) load<1>(from + i, byte);
      word[i / 4] = i % 4 == 0 ? byte[0] : word[i / 4] | byte[0] << (i % 4 * 8);
    }
  }

  __device__ __forceinline__ void put(u32 row, u32 column, int sum) const {
    ternary_put(p.end, row, column, sum, ternary_row_scale(p.end, row));
  }
};

template <u32 kTiles, class Rows>
struct TernaryFew {
  static constexpr u32 kWarps = kTiles == 4 ? KW_TERNARY_FEW_WARPS / 2 : KW_TERNARY_FEW_WARPS, kThreads = kWarps * 32;
  static constexpr u32 kRows = kTiles * 8, kSums = kWarps > kRows ? kWarps : kRows;
#ifdef KW_HAS_WGMMA
  static constexpr u32 kStages = KW_TERNARY_FEW_STAGES_WGMMA;
#else
  static constexpr u32 kStages = KW_TERNARY_FEW_STAGES;
#endif
  static constexpr u32 kSlotPitch = KW_TERNARY_FEW_PITCH, kSlotBytes = kRows * kSlotPitch * 4;
  using Sums = int[kTiles][KW_TERNARY_STEPS][4];
  const KwMatmulTernaryFewParams& p;
  Rows rows;
  u32 first_group, groups;                 // of this block of threads
  u32 begin, end;                          // of this warp: places in groups * chunk_blocks
  u32 each;                                // warps that bring a row of x
  u32 x_pitch, sums, x_room, slots, ring;  // of shared memory: sums of rows, x, partial sums, this lane's stages

  __device__ __forceinline__ TernaryFew(const KwMatmulTernaryFewParams& p, const Rows& rows) : p(p), rows(rows) {
    first_group = static_cast<u32>(u64{p.groups} * blockIdx.x / gridDim.x);
    groups = static_cast<u32>(u64{p.groups} * (blockIdx.x + 1) / gridDim.x) - first_group;
    begin = bound(warp());
    end = bound(warp() + 1);
    each = kWarps;
    while (each > 1 && kWarps / each < p.end.m) each /= 2;
    x_pitch = p.chunk_blocks * KW_TERNARY_DEPTH + 16;
    sums = shared_address(ternary_shared());
    x_room = sums + kSums * 4;
    slots = x_room + p.end.m * x_pitch;
    ring = slots + p.slots * kSlotBytes + (warp() * kStages * 32 + threadIdx.x % 32) * 16;
  }

  __device__ __forceinline__ static u32 warp() { return threadIdx.x / 32; }
  __device__ __forceinline__ u32 bound(u32 warp) const {
    return static_cast<u32>(u64{groups} * p.chunk_blocks * warp / kWarps);
  }

  __device__ __forceinline__ TernaryAt first() const { return {begin / p.chunk_blocks, begin % p.chunk_blocks}; }

  __device__ __forceinline__ void advance(TernaryAt& at) const {
    if (++at.block == p.chunk_blocks) at.block = 0, ++at.group;
  }

  // The last chunk may have fewer blocks than others.
  __device__ __forceinline__ bool there(const TernaryAt& at, u32 chunk) const {
    return chunk * p.chunk_blocks + at.block < p.blocks;
  }

  __device__ __forceinline__ const char* place(const TernaryAt& at, u32 chunk) const {
    const u64 block = u64{first_group + at.group} * p.blocks + chunk * p.chunk_blocks + at.block;
    return p.packed + block * KW_TERNARY_BLOCK + threadIdx.x % 32 * 16;
  }

  // Four words, the first `by` of them behind the others.
  __device__ __forceinline__ static void rotate(u32 (&word)[4], u32 by) {
#pragma unroll
    for (u32 step = 1; step < 4; step *= 2) {
      const u32 before[4] = {word[0], word[1], word[2], word[3]};
#pragma unroll
      for (u32 i = 0; i < 4; ++i) word[i] = (by & step) != 0 ? before[(i + step) % 4] : before[i];
    }
  }

  // A chunk of x to shared memory: of each 128 of k a lane's eight words side by side, so that a piece's four words are
  // 32 bytes apart; lanes store theirs in turns in which no two meet in a bank. Warps share the rows, and count what
  // each sums up to.
  __device__ __forceinline__ void stage(u32 chunk) const {
    const u32 pieces = p.chunk_blocks * (KW_TERNARY_DEPTH / 16), lane = threadIdx.x % 32, turn = lane / 8;
#pragma unroll 1
    for (u32 row = warp() / each; row < p.end.m; row += kWarps / each) {
      int sum = 0;
#pragma unroll Rows::kUnroll
      for (u32 i = warp() % each * 32 + lane; i < pieces; i += each * 32) {
        u32 word[4];
        rows.piece(row, (chunk * pieces + i) * 16, word);
#pragma unroll
        for (u32 j = 0; j < 4; ++j) sum = dot4(word[j], 0x01010101, sum);
        rotate(word, turn);
        const u32 to = x_room + row * x_pitch + i / 8 * KW_TERNARY_DEPTH + i % 8 * 4;
#pragma unroll
        for (u32 j = 0; j < 4; ++j) {
          const u32 one[1] = {word[j]};
          store_shared<4>(to + (j + turn) % 4 * 32, one);
        }
      }
      add_to_sum(row * each + warp() % each, sum, chunk > 0);
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
#pragma unroll 4
      for (u32 part = 0; part < each; ++part) {
        load_shared<4>(sums + (row * each + part) * 4, word);
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
      rows.put(row, column, sum);
    }
  }

  // A copy of a block to this lane's part of a stage, of which only it reads; always one group of copies.
  __device__ __forceinline__ void fetch(const TernaryAt& at, bool wanted, u32 stage, u32 chunk) const {
    if (wanted && there(at, chunk)) copy_async(ring + stage * KW_TERNARY_BLOCK, place(at, chunk), 16);
    copies_commit();
  }

  // The chunk's blocks of this warp, the first kStages of which are on their way.
  __device__ __forceinline__ void run_chunk(u32 chunk, TernaryAt ahead) const {
    const u32 lane = threadIdx.x % 32, x_lane = x_room + lane / 4 * x_pitch + lane % 4 * 32;
    TernaryAt at = first();
    Sums d;
    clear(d);
#pragma unroll 1
    for (u32 i = begin; i < end; ++i) {
      const u32 stage = (i - begin) % kStages, group = at.group;
      copies_wait<kStages - 1>();
      if (there(at, chunk)) {
        u32 word[4];
        load_shared<16>(ring + stage * KW_TERNARY_BLOCK, word);
        multiply(d, word, x_lane + at.block * KW_TERNARY_DEPTH);
      }
      fetch(ahead, end - i > kStages, stage, chunk);
      advance(ahead);
      advance(at);
      if (at.group != group || i + 1 == end) flush(d, group, chunk > 0);
    }
  }

  // While the kernels ahead still run: the lines that the warp begins with, which lie together.
  __device__ __forceinline__ void bring_to_l2() const {
    constexpr u32 kLine = 128, kMost = 4;
    const char* const from = place(first(), 0) - threadIdx.x % 32 * 16;
    const u32 lines = (end - begin) * (KW_TERNARY_BLOCK / kLine);
#pragma unroll
    for (u32 i = 0; i < kMost; ++i) {
      const u32 line = i * 32 + threadIdx.x % 32;
      if (line < lines && p.chunk_blocks == p.blocks) prefetch(from + line * kLine);
    }
  }

  __device__ __forceinline__ void run() {
    allow_next_kernel();
    const u32 chunks = p.blocks > p.chunk_blocks ? (p.blocks + p.chunk_blocks - 1) / p.chunk_blocks : 1;
#pragma unroll 1
    for (u32 chunk = 0; chunk < chunks; ++chunk) {
      if (chunk == 0) {
        bring_to_l2();
        wait_for_previous_kernel();
      }
      TernaryAt ahead = first();
#pragma unroll 1
      for (u32 i = 0; i < kStages; ++i, advance(ahead)) fetch(ahead, begin + i < end, i, chunk);
      if (chunk == 0) rows.template prepare<kWarps>(slots + p.slots * kSlotBytes + kWarps * kStages * KW_TERNARY_BLOCK);
      __syncthreads();  // x of the chunk before has been read
      stage(chunk);
      __syncthreads();
      run_chunk(chunk, ahead);
    }
    __syncthreads();
    finish();
  }
};

}  // namespace kw

#endif
