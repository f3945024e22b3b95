// SPDX-License-Identifier: MIT
// The product with a 4-bit weight of many rows of x, by warpgroups. The weight is the left matrix, in registers, and
// equal to what dequantize_4bit gives: a byte of two codes is looked up as two float32, which are scaled and then
// rounded to the type of x. x is the right matrix, in shared memory as it lies in global memory. So y is transposed,
// which its end turns back.
//
// A warp copies x and codes (TMA), three bring codes into order and scales to them, eight multiply: each has 16 rows of
// the weight and all of a tile's rows of x. While the tensor cores have a step, the warp looks up the next one. Two
// blocks of a cluster have the same rows of x.
#pragma once

#include "device/ptx/bulk.cuh"
#include "device/ptx/registers.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/ptx/wgmma_bf16_registers.cuh"
#include "device/ptx/wgmma_f16_registers.cuh"
#include "device/ptx/wgmma_wait.cuh"
#include "ops/four_bit/device/matmul_wide_epilogue.cuh"
#include "ops/four_bit/device/matmul_wide_producer.cuh"

namespace kw {

struct alignas(8) Pair4bit {
  float first, second;
};

template <class T, u32 kCols>
struct Wide4bit {
  using Shared = WideShared4bit<kCols>;
  using End = WideEpilogue4bit<T, kCols>;
  using Sums = typename End::Sums;
  using Left = u32[4][4];
  const KwMatmul4bitWideParams& p;
  const Shared shared;
  u32 rank;  // in the cluster

  __device__ __forceinline__ explicit Wide4bit(const KwMatmul4bitWideParams& p)
      : p(p), rank(blockIdx.x % kWideCluster) {}

  // Of a byte of codes 16 copies, one for each of the lanes that are served at once.
  __device__ __forceinline__ void fill_table() const {
    for (u32 i = threadIdx.x; i < 256 * 8; i += kWideThreads) {
      const u32 byte = i / 8, first = bits_of_float(p.values[byte >> 4]), second = bits_of_float(p.values[byte & 15]);
      const u32 word[4] = {first, second, first, second};
      store_shared<16>(shared.table + byte * kPairPitch + i % 8 * 16, word);
    }
  }

  __device__ __forceinline__ void copy() const {
    constexpr u32 kShare = kCols / kWideCluster;
    typename Shared::X::Stage stage;
    WideScheduler4bit scheduler(p);
    WidePiece4bit piece;
#pragma unroll 1
    while (scheduler.next(piece)) {
      const u32 first = piece.tile.row * kCols + rank * kShare;
      const u32 row = (piece.tile.column * kWideCluster + rank) * kWideRows;
#pragma unroll 1
      for (u32 step = 0; step < piece.count; ++step, stage.advance()) {
        shared.x.acquire(stage, Shared::kStageBytes);
        const u32 k = (piece.first + step) * kWideDepth, to = shared.x.at(stage), full = shared.x.full(stage);
        const u32 of_x[2] = {k, first}, of_codes[2] = {k / 2, row};
        tma_load_multicast(to + rank * (Shared::kXBytes / kWideCluster), &p.x, of_x, full, (1u << kWideCluster) - 1);
        tma_load(to + Shared::kXBytes, &p.codes, of_codes, full);
      }
    }
  }

  __device__ __forceinline__ u32 value(u32 lane_pairs, u32 codes, u32 which, float by) const {
    const Pair4bit pair =
        *reinterpret_cast<const Pair4bit*>(wide_shared() + byte_permute(lane_pairs, codes, 0x1140 + which * 16));
    return T::pack(pair.first * by, pair.second * by);
  }

  // What a warp that multiplies has at hand: of the lane, where its codes and scales are in a slot.
  struct Worker {
    u32 warp, lane_pairs, codes, scales;
    typename Shared::X::Stage stage, before;
    typename Shared::Codes::Stage slot;
  };

  // The left matrices of a step.
  __device__ __forceinline__ void look_up(Worker& w, Left& left) const {
    u32 codes[4], scales[2][2];
    const u32 at = shared.slot(w.slot);
    shared.codes.wait(w.slot);
    load_shared<16>(at + w.codes, codes);
    load_shared<8>(at + w.scales, scales[0]);
    load_shared<8>(at + w.scales + 8 * 8, scales[1]);
    __syncwarp();
    shared.codes.template leave<1>(w.slot);
    w.slot.advance();
#pragma unroll
    for (u32 i = 0; i < 16; ++i) {
      const u32 half = i % 2, chunk = i / 8, byte = i / 4 % 2 * 2 + i / 2 % 2;
      left[i / 4][i % 4] = value(w.lane_pairs, codes[half * 2 + chunk], byte, float_of_bits(scales[half][chunk]));
    }
  }

  __device__ __forceinline__ void multiply(Sums& d, const Left& left, u32 right) const {
    constexpr u64 kLayout = smem_layout(Swizzle::k128, 1024);
    wgmma_fence();
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      if constexpr (T::kIsHalf) {
        wgmma_f16(d, left[i], smem_descriptor(kLayout, right + i * 2), 1);
      } else {
        wgmma_bf16(d, left[i], smem_descriptor(kLayout, right + i * 2), 1);
      }
    }
    wgmma_commit();
  }

  // A step whose left matrices have been looked up; then those of the next. A stage is left when the next one's
  // products have been issued, and the registers of the step before are free then.
  __device__ __forceinline__ void add_step(Sums& d, Worker& w, const Left& left, Left& next, u32 step,
                                           u32 count) const {
    shared.x.wait(w.stage);
    multiply(d, left, smem_matrix(shared.x.at(w.stage)));
    if (step > 0) {
      wgmma_wait<1>();
      shared.x.template leave<kWideCluster>(w.before);
    }
    w.before = w.stage;
    w.stage.advance();
    if (step + 1 < count) look_up(w, next);
  }

  __device__ __forceinline__ void add_steps(Sums& d, Worker& w, u32 count) const {
    Left left[2];
#pragma unroll
    for (u32 i = 0; i < kCols / 2; ++i) d[i] = 0.0f;
    look_up(w, left[0]);
#pragma unroll 1
    for (u32 step = 0; step < count; step += 2) {
      add_step(d, w, left[0], left[1], step, count);
      if (step + 1 < count) add_step(d, w, left[1], left[0], step + 1, count);
    }
    wgmma_wait<0>(d);
    shared.x.template leave<kWideCluster>(w.before);
  }

  __device__ __forceinline__ void consume() const {
    Worker w{};
    w.warp = same_in_warp(threadIdx.x / kWarp) - 4;
    w.lane_pairs = computed_once(threadIdx.x % 16 * 8);
    const u32 lane = threadIdx.x % kWarp;
    w.codes = computed_once(w.warp * Shared::kUnits + Shared::unit(lane / 4, lane % 4));
    w.scales = computed_once(Shared::scales(w.warp * 16 + lane / 4));
    const End end{p, rank, w.warp, shared.results + w.warp * kWideEnd};
    WideScheduler4bit scheduler(p);
    WidePiece4bit piece;
#pragma unroll 1
    while (scheduler.next(piece)) {
      Sums d;
      add_steps(d, w, piece.count);
      end.run(d, scheduler, piece);
    }
  }

  __device__ __forceinline__ void meet() const {
    __syncwarp();
    cluster_arrive_after_all();
    cluster_wait();
  }

  __device__ __forceinline__ void run() const {
    allow_next_kernel();
    fill_table();
    if (threadIdx.x == 0) shared.init();
    meet();
    wait_for_previous_kernel();
    if (threadIdx.x < 128) {
      release_registers<72>();
      const u32 warp = same_in_warp(threadIdx.x / kWarp);
      if (warp > 0) {
        WideProducer4bit<kCols>(p, rank, warp - 1).run();
      } else if (one_lane()) {
        copy();
      }
    } else {
      take_registers<216>();
      consume();
    }
    meet();  // the other block may still copy to here, and arrive
  }
};

}  // namespace kw
