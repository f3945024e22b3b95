// SPDX-License-Identifier: MIT
// The product with a 4-bit weight by warpgroups, for groups of up to kCols rows of x, which are the columns here.
//
// The weight is the left matrix, in registers: a byte of two codes is looked up as the pair of their values, rounded to
// the type of x. The sums of 64 products are float32 and are scaled then, so that a scale is never rounded. x is the
// right matrix, in shared memory (matmul_4bit_panel_x.cuh).
//
// A block has 256 rows of the weight, 16 each warp, so that a slice of x serves all of them. Blocks of a cluster have
// the same rows and share k; each adds up what all have of its part of the sums, always in the same order.
#pragma once

#include "matmul_4bit_panel_copy.cuh"
#include "ptx_hints.cuh"
#include "ptx_wgmma.cuh"
#include "reduce.cuh"

namespace kw {

template <class T>
__device__ __forceinline__ void fill_panel_pairs(const KwMatmul4bitPanelParams& p) {
  const u32 table = shared_address(panel_shared());
  for (u32 i = threadIdx.x; i < 256 * 8; i += kPanelWarps * kWarp) {
    const u32 byte = i / 8, pair = T::pack(p.values[byte >> 4], p.values[byte & 15]);
    const u32 word[4] = {pair, pair, pair, pair};
    store_shared<16>(table + byte * kPairPitch + i % 8 * 16, word);
  }
}

template <class T, u32 kCols>
struct Panel4bit {
  static constexpr u32 kParts = kCols / 8;
  static constexpr u32 kRegisters = kCols / 2;
  static constexpr u32 kProducts = kCols <= 32 ? 2 : 1;  // as many as registers have room for
  const KwMatmul4bitPanelParams& p;
  const PanelPart4bit part;
  PanelX4bit<kCols> x;
  u32 lane_pairs;  // of the lane in each row of the table
  float sum[kRegisters];
  float product[kProducts][kRegisters];  // of slices, on their way in turn

  __device__ __forceinline__ explicit Panel4bit(const KwMatmul4bitPanelParams& p) : p(p), part(p), x(p, part) {
    lane_pairs = computed_once(threadIdx.x % kWarp * 4);
#pragma unroll
    for (u32 i = 0; i < kRegisters; ++i) sum[i] = 0.0f;
#pragma unroll
    for (u32 i = 0; i < kProducts * kRegisters; ++i) product[i / kRegisters][i % kRegisters] = 0.0f;
  }

  __device__ __forceinline__ u32 pair_of(u32 four, u32 which) const {
    return *reinterpret_cast<const u32*>(panel_shared() + byte_permute(lane_pairs, four, 0x1140 + which * 16));
  }

  // Sets out for the products of a slice.
  __device__ __forceinline__ void begin(u32 which, const u32 (&left)[4][4], u32 right) {
    group_begin();
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      if constexpr (T::kIsHalf) {
        multiply_group_half(product[which], left[i], whole_group_matrix(right + i * 2), i > 0);
      } else {
        multiply_group_bfloat(product[which], left[i], whole_group_matrix(right + i * 2), i > 0);
      }
    }
    group_commit();
  }

  // Waits for all but the last kLeft of these and adds them, scaled.
  template <int kLeft>
  __device__ __forceinline__ void end(u32 which, const float (&by)[2]) {
    group_wait<kLeft>(product[which]);
#pragma unroll
    for (u32 i = 0; i < kRegisters; ++i) sum[i] = fmaf(product[which][i], by[i / 2 % 2], sum[i]);
  }

  // The four left matrices of a slice, from what load_codes() gave.
  __device__ __forceinline__ void look_up(const u32 (&four)[4], u32 (&left)[4][4]) const {
#pragma unroll
    for (u32 i = 0; i < 16; ++i) left[i / 4][i % 4] = pair_of(four[i / 8 * 2 + i % 2], i / 2 % 4);
  }

  // The products of four slices. The tensor cores have some to do while a warp looks up what the next slice needs, and
  // where there are two products also while it scales one.
  template <class Codes>
  __device__ __forceinline__ void add_step(Codes& codes, u32 step, u32 stage) {
    constexpr u32 kLast = kStepSlices - 1;
    u32 four[4], left[2][4][4];
    float by[2];
    u32 right = 0;
    codes.load_codes(0, four);
    look_up(four, left[0]);
#pragma unroll
    for (u32 slice = 0; slice < kStepSlices; ++slice) {
      const u32 now = slice % kProducts, before = (slice + 1) % kProducts;
      if (slice < kLast) codes.load_codes(slice + 1, four);
      if (slice % kStageSlices == 0) right = x.wait(stage + slice / kStageSlices);
      begin(now, left[slice % 2], right + slice % kStageSlices * (PanelPlace4bit<kCols>::kSlice / 16));
      if (kProducts > 1 && slice > 0) end<1>(before, by);
      if (kProducts > 1 && slice == kStageSlices) x.leave(stage);
      if (slice < kLast) look_up(four, left[(slice + 1) % 2]);
      codes.load_scales(step, slice, by);
      if (slice == 0) codes.fetch(step, part.steps);
      if (kProducts == 1) end<0>(now, by);
      if (kProducts == 1 && slice % kStageSlices == kStageSlices - 1) x.leave(stage + slice / kStageSlices);
    }
    if constexpr (kProducts == 1) return;
    end<0>(kLast % kProducts, by);
    x.leave(stage + kLast / kStageSlices);
  }

  // Those of what is left, one after the other.
  template <class Codes>
  __device__ __forceinline__ void add_rest(const Codes& codes, u32 step, u32 stage, u32 slices) {
    u32 right = 0;
#pragma unroll 1
    for (u32 slice = 0; slice < slices; ++slice) {
      u32 four[4], left[4][4];
      float by[2];
      codes.load_codes(slice, four);
      look_up(four, left);
      if (slice % kStageSlices == 0) right = x.wait(stage + slice / kStageSlices);
      codes.load_scales(step, slice, by);
      begin(0, left, right);
      end<0>(0, by);
      right += PanelPlace4bit<kCols>::kSlice / 16;
    }
  }

  // Block `rank` of the cluster adds up every part of a warp's sums whose number, modulo the cluster, is its own. What
  // the blocks have of it lies in shared memory then, where codes were.
  __device__ __forceinline__ u32 number_of(u32 i) const { return threadIdx.x / kWarp * kParts + i; }

  __device__ __forceinline__ u32 place_of(u32 number, u32 from) const {
    const u32 most = (kPanelWarps * kParts + p.split - 1) / p.split;
    return x.place.codes + ((from * most + number / p.split) * kWarp + threadIdx.x % kWarp) * 16;
  }

  __device__ __forceinline__ void give_sums() const {
#pragma unroll
    for (u32 i = 0; i < kParts; ++i) {
      const u32 number = number_of(i), owner = number % p.split, to = place_of(number, part.rank);
      u32 word[4];
#pragma unroll
      for (u32 j = 0; j < 4; ++j) word[j] = bits_of_float(sum[i * 4 + j]);
      if (owner == part.rank) {
        store_shared<16>(to, word);
      } else {
        store_async(to, x.place.sums_barrier(), owner, word);
      }
    }
  }

  __device__ __forceinline__ void share_sums() const {
    const u32 all = kPanelWarps * kParts, mine = (all - part.rank + p.split - 1) / p.split;
    if (p.split == 1) {
      __syncthreads();
      return give_sums();
    }
    if (threadIdx.x == 0) barrier_expect(x.place.sums_barrier(), mine * (p.split - 1) * (kWarp * 16));
    cluster_arrive_after_all();
    cluster_wait();
    give_sums();
    barrier_wait(x.place.sums_barrier(), 0);
  }

  __device__ __forceinline__ void store_part(u32 i, u32 row, const float (&bias)[2]) const {
    float total[4] = {};
    for (u32 from = 0; from < p.split; ++from) {
      u32 word[4];
      load_shared<16>(place_of(number_of(i), from), word);
#pragma unroll
      for (u32 j = 0; j < 4; ++j) total[j] += float_of_bits(word[j]);
    }
    const u32 column = part.group * kCols + i * 8 + threadIdx.x % 4 * 2;
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
      const u32 m = column + j % 2, n = row + j / 2 * 8;
      const float value[1] = {total[j] * p.by + bias[j / 2]};
      Unit<T, 2> unit;
      unit.pack(value);
      if (m < p.m && n < p.n) store<2>(p.y + m * p.y_pitch + n * i64{2}, unit.word);
    }
  }

  __device__ __forceinline__ void finish() {
    share_sums();
    float bias[2] = {};
    const u32 row = part.tile * kPanelRows + threadIdx.x / kWarp * 16 + threadIdx.x % kWarp / 4;
#pragma unroll
    for (u32 j = 0; j < 2; ++j) {
      if (p.bias != nullptr && row + j * 8 < p.n) bias[j] = load_element<T>(p.bias + (row + j * 8) * u64{2});
    }
#pragma unroll 1
    for (u32 i = 0; i < kParts; ++i) {
      if (number_of(i) % p.split == part.rank) store_part(i, row, bias);
    }
  }

  template <bool kQuantized>
  __device__ __forceinline__ void add_steps() {
    PanelCodes4bit<kQuantized> codes(p, x.place, part.tile);
    codes.begin(part.step, part.steps);
    x.begin();
    u32 stage = 0;
#pragma unroll 1
    for (u32 step = part.step; step < part.steps; ++step, stage += kStepSlices / kStageSlices) {
      codes.advance();
      const u32 slices = part.slices - stage * kStageSlices;
      if (slices < kStepSlices) return add_rest(codes, step, stage, slices);
      add_step(codes, step, stage);
    }
  }

  __device__ __forceinline__ void run() {
    fill_panel_pairs<T>(p);
    if (threadIdx.x == 0) x.init();
    allow_next_kernel();
    __syncthreads();
    wait_for_previous_kernel();
    if (p.scales.absmax != nullptr) {
      add_steps<false>();
    } else {
      add_steps<true>();
    }
    finish();
  }
};

}  // namespace kw
