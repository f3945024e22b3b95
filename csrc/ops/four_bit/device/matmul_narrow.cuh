// SPDX-License-Identifier: MIT
// The product with a 4-bit weight by warpgroups, for groups of up to kCols rows of x, which are the columns here.
//
// The weight is the left matrix, in registers: a byte of two codes is looked up as the pair of their values, rounded to
// the type of x. The sums of 64 products are float32 and are scaled then, so that a scale is never rounded. x is the
// right matrix, in shared memory (matmul_narrow_x.cuh).
//
// A block has 16 warps of 16 rows of the weight, so that a slice of x serves all of them. Blocks of a cluster share k,
// or some rows (matmul_narrow_shared.cuh); each adds up what all have of its part of the sums, always in the same
// order.
#pragma once

#include "device/ptx/hints.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/ptx/wgmma_bf16_registers.cuh"
#include "device/ptx/wgmma_f16_registers.cuh"
#include "device/ptx/wgmma_wait.cuh"
#include "device/reduce.cuh"
#include "ops/four_bit/device/matmul_narrow_codes.cuh"
#include "ops/four_bit/device/matmul_narrow_copy.cuh"
#include "ops/four_bit/device/matmul_narrow_epilogue.cuh"
#include "ops/four_bit/matmul_tuning.h"

namespace kw {

template <class T>
__device__ __forceinline__ void fill_narrow_pairs(const KwMatmul4bitNarrowParams& p) {
  const u32 table = shared_address(narrow_shared());
  for (u32 i = threadIdx.x; i < 256 * 8; i += kNarrowWarps * kWarp) {
    const u32 byte = i / 8, pair = T::pack(p.values[byte >> 4], p.values[byte & 15]);
    const u32 word[4] = {pair, pair, pair, pair};
    store_shared<16>(table + byte * kPairPitch + i % 8 * 16, word);
  }
}

template <class T, u32 kCols>
struct Narrow4bit {
  static constexpr u32 kStageSlices = NarrowShared4bit<kCols>::kStageSlices, kStepStages = kStepSlices / kStageSlices;
  static constexpr u32 kRegisters = kCols / 2;
  static constexpr u32 kProducts = kCols <= 16 ? 2 : 1;  // a second one costs registers; wider ones last long enough
  static constexpr bool kEarly = kCols <= KW_NARROW_EARLY_COLS;
  const KwMatmul4bitNarrowParams& p;
  const NarrowPart4bit part;
  NarrowX4bit<kCols> x;
  u32 lane_pairs;  // of the lane in each row of the table
  float sum[kRegisters];
  float product[kProducts][kRegisters];  // of slices, on their way in turn

  __device__ __forceinline__ explicit Narrow4bit(const KwMatmul4bitNarrowParams& p)
      : p(p), part(p, blockIdx.x, threadIdx.x), x(p, part) {
    lane_pairs = computed_once(threadIdx.x % kWarp * 4);
#pragma unroll
    for (u32 i = 0; i < kRegisters; ++i) sum[i] = 0.0f;
#pragma unroll
    for (u32 i = 0; i < kProducts * kRegisters; ++i) product[i / kRegisters][i % kRegisters] = 0.0f;
  }

  __device__ __forceinline__ u32 pair_of(u32 four, u32 which) const {
    return *reinterpret_cast<const u32*>(narrow_shared() + byte_permute(lane_pairs, four, 0x1140 + which * 16));
  }

  // Sets out for the products of a slice.
  __device__ __forceinline__ void begin(u32 which, const u32 (&left)[4][4], u32 right) {
    constexpr u64 kRight = smem_layout(Swizzle::k128, 1024);
    wgmma_fence();
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      if constexpr (T::kIsHalf) {
        wgmma_f16(product[which], left[i], smem_descriptor(kRight, right + i * 2), i > 0);
      } else {
        wgmma_bf16(product[which], left[i], smem_descriptor(kRight, right + i * 2), i > 0);
      }
    }
    wgmma_commit();
    // Nothing that comes later is put among them by compilers, so that the last one does not begin late. Where another
    // product is on its way meanwhile it is slower so.
    if constexpr (kProducts == 1) __syncwarp();
  }

  // Waits for all but the last kLeft of these and adds them, scaled.
  template <int kLeft>
  __device__ __forceinline__ void end(u32 which, const float (&by)[2]) {
    wgmma_wait<kLeft>(product[which]);
#pragma unroll
    for (u32 i = 0; i < kRegisters; ++i) sum[i] = fmaf(product[which][i], by[i / 2 % 2], sum[i]);
  }

  // The four left matrices of a slice. In a step it stands right after products that were begun: what is loaded before,
  // compilers put among them, and the last one begins late.
  template <class Codes>
  __device__ __forceinline__ void look_up(const Codes& codes, u32 slice, u32 (&left)[4][4]) const {
    u32 four[4];
    codes.load_codes(slice, four);
#pragma unroll
    for (u32 i = 0; i < 16; ++i) left[i / 4][i % 4] = pair_of(four[i / 8 * 2 + i % 2], i / 2 % 4);
  }

  // The products of four slices, of which the first has been looked up. The tensor cores have some to do while a warp
  // looks up what the next slice needs, be it the next step's, and where there are two products also while it scales
  // one. Where there is one, it sends for later steps when it has scaled, since registers are few.
  template <class Codes>
  __device__ __forceinline__ void add_step(Codes& codes, u32 step, u32 stage, u32 (&left)[2][4][4]) {
    constexpr u32 kLast = kStepSlices - 1;
    float by[kStepSlices][2];
    u32 right = 0;
#pragma unroll
    for (u32 slice = 0; slice < kStepSlices; ++slice) {
      const u32 now = slice % kProducts, before = (slice + 1) % kProducts;
      if (slice % kStageSlices == 0) right = x.wait(stage + slice / kStageSlices);
      begin(now, left[slice % 2], right + slice % kStageSlices * (NarrowShared4bit<kCols>::kSlice / 16));
      if (kProducts > 1 && slice > 0) end<1>(before, by[slice - 1]);
      if (kProducts > 1 && slice == kStageSlices) x.leave(stage);
      if (kProducts == 1) codes.load_scales(slice, by[slice]);
      if (kProducts > 1 && slice == 0) codes.load_scales(by);
      if (slice == kLast) codes.advance(step + codes.stride < part.steps);
      look_up(codes, (slice + 1) % kStepSlices, left[(slice + 1) % 2]);
      if (kProducts > 1 && slice == 0) codes.fetch(step, part.steps);
      if (kProducts == 1) end<0>(now, by[slice]);
      if (kProducts == 1 && slice == 0) codes.fetch(step, part.steps);
      if (kProducts == 1 && slice % kStageSlices == kStageSlices - 1) x.leave(stage + slice / kStageSlices);
    }
    if constexpr (kProducts == 1) return;
    end<0>(kLast % kProducts, by[kLast]);
    x.leave(stage + kLast / kStageSlices);
  }

  // Those of what is left, one after the other.
  template <class Codes>
  __device__ __forceinline__ void add_rest(const Codes& codes, u32 stage, u32 slices) {
    u32 right = 0;
#pragma unroll 1
    for (u32 slice = 0; slice < slices; ++slice) {
      u32 left[4][4];
      float by[2];
      look_up(codes, slice, left);
      if (slice % kStageSlices == 0) right = x.wait(stage + slice / kStageSlices);
      codes.load_scales(slice, by);
      begin(0, left, right);
      end<0>(0, by);
      right += NarrowShared4bit<kCols>::kSlice / 16;
    }
  }

  // What does not depend on x is on its way before the kernel that brings x into order is done: that one lets this one
  // begin when all before it is there. kEarly: that one lets it begin at once, so that L2 alone is told of the weight
  // before the wait, which somebody may write until then.
  template <bool kBoxed>
  __device__ __forceinline__ void add_steps() {
    NarrowCodes4bit<kBoxed> codes(p, x.shared, part);
    codes.init();
    if constexpr (!kEarly) codes.begin(part.first_step(), part.steps);
    fill_narrow_pairs<T>(p);
    if (threadIdx.x == 0) x.init(p.split, p.sides, part.side);
    __syncthreads();
    if constexpr (kEarly) codes.prefetch(part.first_step());
    wait_for_previous_kernel();
    if constexpr (kEarly) codes.begin(part.first_step(), part.steps);
    x.begin();
    codes.begun(part.first_step());
    u32 stage = (part.first_step() - part.step) * kStepStages;
    if (stage * kStageSlices >= part.slices) return;
    u32 left[2][4][4];
    codes.advance(true);
    look_up(codes, 0, left[0]);
#pragma unroll 1
    for (; stage * kStageSlices < part.slices; stage += codes.stride * kStepStages) {
      const u32 slices = part.slices - stage * kStageSlices;
      if (slices < kStepSlices) return add_rest(codes, stage, slices);
      add_step(codes, part.step + stage / kStepStages, stage, left);
    }
  }

  __device__ __forceinline__ void run() {
    allow_next_kernel();
    if (p.boxed_scales != 0) {
      add_steps<true>();
    } else {
      add_steps<false>();
    }
    NarrowEpilogue4bit<T, kCols>(p).run(sum);
  }
};

}  // namespace kw
