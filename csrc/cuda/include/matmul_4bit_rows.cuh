// SPDX-License-Identifier: MIT
// The product with a 4-bit weight on tensor cores for up to 16 rows of x, which are the columns here: what a decoding
// model asks for. Memory decides, so each warp has a pipeline of its own and waits for nobody.
//
// A unit is 16 rows of the weight, a slice 128 of k; a warp copies one of a unit and a slice at a time, and has x for
// the slice in registers. The warps of a block go through the same units, up to kUnits of a warp at once, and share
// the slices. A byte of two codes is looked up as the pair of their values, rounded to the type of x; the sums of 32
// products are float32 and are scaled then, so that a scale is never rounded. The order of k within 32 is that in which
// lanes find codes in memory: a lane's four bytes are eight of k, and x is read alike.
#pragma once

#include "matmul_4bit_pairs.cuh"
#include "matmul_4bit_rows_copy.cuh"
#include "ptx_hints.cuh"
#include "ptx_sync.cuh"

namespace kw {

template <class T, u32 kCols, u32 kUnits, u32 kRowWarps, u32 kSlots, bool kQuantized>
struct Rows4bit {
  using Copies = RowsCopies4bit<kUnits, kRowWarps, kSlots, kQuantized>;
  static constexpr u32 kParts = kCols / 8;
  static constexpr bool kAhead = kParts == 1;  // whether registers have room for x of the next slice
  const KwMatmul4bitParams& p;
  const u32 lane;
  Copies copies;
  u32 right[kParts][4][4];
  u32 next[kAhead ? kParts : 1][4][4];
  float sum[kUnits][kParts][4];

  __device__ __forceinline__ explicit Rows4bit(const KwMatmul4bitParams& p)
      : p(p), lane(threadIdx.x % kWarp), copies(p) {}

  // Of the lane's columns, of its place in each chunk. Past the end of k x is 0, as the scales are; past the last
  // column it is the last one's.
  __device__ __forceinline__ void load_x(u32 slice, u32 (&to)[kParts][4][4]) const {
#pragma unroll
    for (u32 i = 0; i < kParts; ++i) {
      const u32 column = i * 8 + lane / 4, last = static_cast<u32>(p.m) - 1;
      const char* x =
          p.x + (column < last ? column : last) * p.x_pitch + (lane % 4 + static_cast<u64>(slice) * 16) * 16;
#pragma unroll
      for (u32 c = 0; c < 4; ++c) {
#pragma unroll
        for (u32 j = 0; j < 4; ++j) to[i][c][j] = 0;
        if (slice * 4 + c < p.row_chunks) load<16>(x + c * 64, to[i][c]);
      }
    }
  }

  __device__ __forceinline__ void clear_sums() {
#pragma unroll
    for (u32 i = 0; i < kUnits * kParts * 4; ++i) sum[i / (kParts * 4)][i / 4 % kParts][i % 4] = 0.0f;
  }

  // The products of a unit and a slice.
  __device__ __forceinline__ void add(float (&sums)[kParts][4]) const {
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
      u32 codes[4];
      float by[2][2];
      copies.load_codes(half, codes);
      copies.load_scales(half, by);
#pragma unroll
      for (u32 c = 0; c < 2; ++c) {
        u32 left[2][4];
#pragma unroll
        for (u32 j = 0; j < 8; ++j) left[j / 4][j % 4] = pair_of(codes[c * 2 + j % 2], j / 2);
#pragma unroll
        for (u32 i = 0; i < kParts; ++i) {
          const u32(&b)[4] = right[i][half * 2 + c];
          float part[4] = {};
          multiply_pairs<T>(part, left[0], b[0], b[1]);
          multiply_pairs<T>(part, left[1], b[2], b[3]);
#pragma unroll
          for (u32 j = 0; j < 4; ++j) sums[i][j] = fmaf(part[j], by[j / 2][c], sums[i][j]);
        }
      }
    }
  }

  // A loop that compilers would not unroll, as the indices of registers need it.
  template <u32 kUnit>
  __device__ __forceinline__ void add_units(u32 units) {
    if constexpr (kUnit < kUnits) {
      if (kUnit >= units) return;
      copies.step();
      add(sum[kUnit]);
      add_units<kUnit + 1>(units);
    }
  }

  __device__ __forceinline__ void add_slice(u32 slice, u32 units) {
    if constexpr (kAhead) {
#pragma unroll
      for (u32 i = 0; i < 16; ++i) right[0][i / 4][i % 4] = next[0][i / 4][i % 4];
      load_x(slice + Copies::kDepthWarps, next);
    } else {
      load_x(slice, right);
    }
    add_units<0>(units);
  }

  // Adds what the warps that share the slices have of two units, always in the same order: a lane has one of 32 rows, a
  // warp one of 8 columns.
  __device__ __forceinline__ void store_pair(u32 thread, i64 first_row, u32 row_warp, u32 part) const {
    const u32 row = thread % kWarp, of_eight = thread / kWarp, column = part * 8 + of_eight;
    const i64 n = first_row + row;
    if (column >= p.m || n >= p.n) return;
    float total[1] = {0.0f};
#pragma unroll
    for (u32 warp = row_warp; warp < kRowsWarps; warp += kRowWarps) {
      u32 word[1];
      load_shared<4>(copies.sums_at(warp, row, of_eight), word);
      total[0] += float_of_bits(word[0]);
    }
    total[0] *= p.by;
    if (p.bias != nullptr) total[0] += load_element<T>(p.bias + n * 2);
    Unit<T, 2> result;
    result.pack(total);
    store<2>(p.y + column * p.y_pitch + n * 2, result.word);
  }

  // The sums of two units of each warp go through shared memory at once.
  template <u32 kUnit>
  __device__ __forceinline__ void give_pair(u32 thread, u32 part) const {
    const u32 to = copies.sums_at(thread / kWarp, thread % kWarp / 4, thread % 4 * 2);
#pragma unroll
    for (u32 i = 0; i < 8; ++i) {
      if (kUnit + i / 4 >= kUnits) break;
      const u32 word[1] = {bits_of_float(sum[kUnit + i / 4][part][i % 4])};
      store_shared<4>(to + i / 2 * 32 + i % 2 * kSumsPitch, word);
    }
  }

  template <u32 kUnit>
  __device__ __forceinline__ void finish(const typename Copies::Pass& pass, u32 thread) const {
    if constexpr (kUnit < kUnits) {
      if (kUnit * kRowWarps >= pass.units) return;
#pragma unroll
      for (u32 part = 0; part < kParts; ++part) {
        __syncthreads();
        give_pair<kUnit>(thread, part);
        __syncthreads();
#pragma unroll
        for (u32 i = 0; i < kRowWarps; ++i) {
          const i64 first_row = (pass.unit + pass.first_of(i) + kUnit) * i64{16};
          if (thread % kWarp + kUnit * 16 < pass.units_of(i) * 16) store_pair(thread, first_row, i, part);
        }
      }
      finish<kUnit + 2>(pass, thread);
    }
  }

  __device__ __forceinline__ void run() {
    fill_pairs<T>(p);
    allow_next_kernel();
    copies.prefetch_first();
    __syncthreads();
    wait_for_previous_kernel();
    copies.begin();
    auto pass = copies.first_pass();
    while (pass.units > 0) {
      clear_sums();
      if constexpr (kAhead) load_x(copies.first_slice, next);
      const u32 units = pass.units_of(copies.row_warp);
      for (u32 slice = copies.first_slice; slice < p.slices; slice += Copies::kDepthWarps) add_slice(slice, units);
      finish<0>(pass, computed_here(threadIdx.x));
      pass.advance();
    }
  }
};

}  // namespace kw
