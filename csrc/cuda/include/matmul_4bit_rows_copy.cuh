// SPDX-License-Identifier: MIT
// What a warp of matmul_4bit_rows.cuh reads of the weight, and its shared memory. One after the other: the table of
// pairs; the sums of all warps; for each warp a ring of slots, each with the codes of a unit and a slice and with
// their scales. A chunk is 32 of k: 16 bytes of codes, never of two scales.
#pragma once

#include "four_bit_scales.cuh"
#include "matmul_4bit_pairs.cuh"
#include "ptx_async_word.cuh"
#include "ptx_hints.cuh"

namespace kw {

constexpr u32 kRowsWarps = 8;
constexpr u32 kCodesBytes = 16 * 64;  // of a unit and a slice
constexpr u32 kSlotBytes = kCodesBytes + 16 * 4 * 4;
constexpr u32 kSumsPitch = 36 * 4;  // bytes a column of two units: what lanes have lies in different banks
constexpr u32 kSumsBytes = 8 * kSumsPitch;
constexpr u32 kNone = 0xffffffffu;

// Units that the block goes through at once, at most kUnits for each of the warps side by side along them.
template <u32 kUnits, u32 kRowWarps>
struct RowsPass4bit {
  static constexpr u32 kMost = kUnits * kRowWarps;
  u32 unit, units, end;

  __device__ __forceinline__ void take() {
    const u32 left = end - unit;
    units = left <= kMost ? left : left < kMost * 2 ? (left + 1) / 2 : kMost;
  }

  __device__ __forceinline__ void advance() {
    unit += units;
    take();
  }

  // The units of one of these warps are from first_of() to first_of() of the next.
  __device__ __forceinline__ u32 first_of(u32 row_warp) const { return row_warp * units / kRowWarps; }
  __device__ __forceinline__ u32 units_of(u32 row_warp) const { return first_of(row_warp + 1) - first_of(row_warp); }
};

template <u32 kUnits, u32 kRowWarps, u32 kSlots, bool kQuantized>
struct RowsCopies4bit {
  using Pass = RowsPass4bit<kUnits, kRowWarps>;
  static constexpr u32 kDepthWarps = kRowsWarps / kRowWarps;  // that share the slices
  const KwMatmul4bitParams& p;
  const u32 lane, warp, row_warp, first_slice;
  const u32 shared;
  const u32 ring;               // of the warp
  u32 codes_at;                 // in a slot: where the lane's row of the four matrices of a slice's first half is
  u32 codes_to;                 // and where the first of its two copies goes
  u32 lane_chunks;              // from a unit's first chunk to the lane's
  Pass pass;                    // what is copied next:
  u32 left, slice;              // of its units that the warp has; the slice
  u32 chunk;                    // the lane's first in the weight, and
  bool inside;                  // whether k goes so far
  u32 slot;                     // that is read
  u32 block[2], code[2], late;  // quantized scales on their way, and which slot they are for
  bool was_inside;

  __device__ __forceinline__ explicit RowsCopies4bit(const KwMatmul4bitParams& p)
      : p(p),
        lane(threadIdx.x % kWarp),
        warp(bits_of_float(shuffle_from(float_of_bits(threadIdx.x / kWarp), 0))),
        row_warp(warp % kRowWarps),
        first_slice(warp / kRowWarps),
        shared(shared_address(dynamic_shared())),
        ring(shared + kPairsBytes + kRowsWarps * kSumsBytes + warp * (kSlots * kSlotBytes)) {
    const u32 row = lane & 15, chunk = lane / 16;
    codes_at = row * 64 + (chunk ^ (row / 2 & 3u)) * 16;
    codes_to = lane / 4 * 64 + ((lane ^ lane / 8) & 3u) * 16;
    lane_chunks = lane / 4 * p.row_chunks + lane % 4;
  }

  __device__ __forceinline__ Pass first_pass() const {
    const u32 before = blockIdx.x < p.more_units ? blockIdx.x : p.more_units;
    Pass first;
    first.unit = blockIdx.x * p.block_units + before;
    first.end = first.unit + p.block_units + (blockIdx.x < p.more_units ? 1 : 0);
    first.take();
    return first;
  }

  __device__ __forceinline__ void begin_slice() {
    left = pass.units_of(row_warp);
    chunk = (pass.unit + pass.first_of(row_warp)) * 16 * p.row_chunks + slice * 4 + lane_chunks;
    inside = slice * 4 + lane % 4 < p.row_chunks;
  }

  __device__ __forceinline__ void begin_pass() {
    slice = first_slice;
    begin_slice();
  }

  // A warp that has nothing to do in one pass has nothing in those that follow, which are no larger.
  __device__ __forceinline__ void rewind() {
    pass = first_pass();
    begin_pass();
    if (slice >= p.slices) left = 0;
  }

  __device__ __forceinline__ void advance() {
    chunk += p.row_chunks * 16;
    if (--left > 0) return;
    slice += kDepthWarps;
    if (slice < p.slices) return begin_slice();
    pass.advance();
    begin_pass();
  }

  // Where the lane's two chunks are that are copied next. Past the last row they are the last one's, which nobody
  // stores; past the end of k they are not to be used.
  __device__ __forceinline__ u32 chunk_at(u32 i) const {
    const u32 at = chunk + i * 8 * p.row_chunks;
    return at < p.last_chunk ? at : p.last_chunk;
  }

  __device__ __forceinline__ const char* codes_of(u32 at) const { return p.packed + static_cast<u64>(at) * 16; }

  __device__ __forceinline__ u32 block_of(u32 at) const { return at >> (p.scales.block_log2 - 5); }

  __device__ __forceinline__ const char* scale_of(u32 at) const {
    if constexpr (kQuantized) {
      return p.scales.codes + block_of(at);
    } else {
      return p.scales.absmax + static_cast<u64>(block_of(at)) * 4;
    }
  }

  __device__ __forceinline__ void copy_unit(u32 to) const {
#pragma unroll
    for (u32 i = 0; i < 2; ++i) copy_async(to + codes_to + i * 512, codes_of(chunk_at(i)), inside ? 16 : 0);
    if constexpr (!kQuantized) {
#pragma unroll
      for (u32 i = 0; i < 2; ++i) {
        copy_async_word(to + kCodesBytes + lane * 4 + i * 128, scale_of(chunk_at(i)), inside ? 4 : 0);
      }
    }
  }

  // Those that fetch_quantized() sent for before.
  __device__ __forceinline__ void store_quantized() const {
    if (late == kNone) return;
    const float offset = scales_offset(p.scales);
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
      const float by = load_float(p.scales.absmax2 + static_cast<u64>(block[i] >> kScalesLog2) * 4);
      const float value = load_float(p.scales.map + code[i] * 4);
      const float scale = add_rounded(multiply_rounded(value, by), offset);
      const u32 word[1] = {was_inside ? bits_of_float(scale) : 0u};
      store_shared<4>(late + kCodesBytes + lane * 4 + i * 128, word);
    }
  }

  __device__ __forceinline__ void fetch_quantized(u32 to) {
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
      block[i] = block_of(chunk_at(i));
      u32 byte[1];
      load<1>(scale_of(chunk_at(i)), byte);
      code[i] = byte[0];
    }
    was_inside = inside;
    late = to;
  }

  __device__ __forceinline__ void copy(u32 to) {
    if constexpr (kQuantized) {
      store_quantized();
      late = kNone;
    }
    if (left > 0) {
      copy_unit(to);
      if constexpr (kQuantized) fetch_quantized(to);
      advance();
    }
    copies_commit();
  }

  // Has L2 bring what begin() will copy. To read it is another matter: the kernel before may still write it.
  __device__ __forceinline__ void prefetch_first() {
    rewind();
#pragma unroll 1
    for (u32 i = 0; i + 1 < kSlots && left > 0; ++i, advance()) {
#pragma unroll
      for (u32 j = 0; j < 2; ++j) {
        prefetch(codes_of(chunk_at(j)));
        prefetch(scale_of(chunk_at(j)));
      }
    }
  }

  __device__ __forceinline__ void begin() {
    late = kNone;
    rewind();
#pragma unroll 1
    for (u32 i = 0; i + 1 < kSlots; ++i) copy(ring + i * kSlotBytes);
    slot = ring + (kSlots - 1) * kSlotBytes;
  }

  // Goes on to the next slot. The one that is free then is copied to.
  __device__ __forceinline__ void step() {
    copies_wait<kSlots - 2>();
    __syncwarp();
    copy(slot);
    slot = slot == ring + (kSlots - 1) * kSlotBytes ? ring : slot + kSlotBytes;
  }

  // Of the lane's rows and two chunks.
  __device__ __forceinline__ void load_scales(u32 half, float (&by)[2][2]) const {
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
      u32 word[2];
      load_shared<8>(slot + kCodesBytes + lane / 4 * 16 + i * 128 + half * 8, word);
#pragma unroll
      for (u32 j = 0; j < 2; ++j) by[i][j] = float_of_bits(word[j]);
    }
  }

  // Of two chunks: of the first both of the lane's rows, then of the second.
  __device__ __forceinline__ void load_codes(u32 half, u32 (&codes)[4]) const {
    load_matrices(slot + (codes_at ^ (half * 32)), codes);
  }

  __device__ __forceinline__ u32 sums_at(u32 of_warp, u32 row, u32 column) const {
    return shared + kPairsBytes + of_warp * kSumsBytes + column * kSumsPitch + row * 4;
  }
};

}  // namespace kw
