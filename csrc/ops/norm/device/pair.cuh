// SPDX-License-Identifier: MIT
// Long rows of LayerNorm with a residual, two at a time: a cluster holds both in registers, so that its blocks meet
// once for two rows. Weight and bias serve both, and wait in shared memory when they are wanted.
#pragma once

#include "device/ptx/async.cuh"
#include "ops/norm/device/common.cuh"

namespace kw {

#ifdef KW_HAS_CLUSTER

constexpr int kPairRows = 2;
constexpr int kPairUnits = 4;      // of each row a thread has, at most
constexpr u32 kPairThreads = 256;  // of a block, at most
constexpr u32 kPairLanes = 8;      // for the parts of a row: as many as a block has warps, or a cluster blocks
constexpr u32 kPairParts = kPairRows * kPairLanes;

struct alignas(16) PairScratch {
  Moments warp[kPairParts];
  Moments block[kPairLanes][kPairRows];
  u64 barrier;
};

// From what each warp knows of both rows; every thread gets the statistics of both.
__device__ __forceinline__ void pair_statistics(const Params& p, const Moments (&of_warp)[kPairRows],
                                                PairScratch& scratch, Statistics (&of_row)[kPairRows]) {
  const u32 lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, blocks = 1u << p.cluster_log2;
  if (lane == 0) {
#pragma unroll
    for (int i = 0; i < kPairRows; ++i) scratch.warp[i * kPairLanes + warp] = of_warp[i];
  }
  if (threadIdx.x < kPairParts && threadIdx.x % kPairLanes >= blockDim.x / kWarp) scratch.warp[threadIdx.x] = {};
  cluster_wait();
  __syncthreads();
  if (warp == 0) {
    const Moments block = lanes_moments(scratch.warp[lane % kPairParts], kPairLanes);
    const u32 rank = lane % kPairLanes;
    if (lane < kPairParts && rank < blocks) {
      const u32 words[] = {bits_of_float(block.count), bits_of_float(block.mean), bits_of_float(block.m2), 0};
      store_async(&scratch.block[cluster_rank(p)][lane / kPairLanes], &scratch.barrier, rank, words);
    }
  }
  barrier_wait_shared(&scratch.barrier, 0);
  const Moments row = lanes_moments(scratch.block[lane % blocks][lane / blocks % kPairRows], blocks);
  const float rstd = rsqrt_approx(fmaf(row.m2, p.inverse_cols, p.eps));
#pragma unroll
  for (int i = 0; i < kPairRows; ++i) of_row[i] = {shuffle_from(row.mean, i * blocks), shuffle_from(rstd, i * blocks)};
}

// A thread's units of weight or bias in shared memory, which it brings there and is the only one to read.
template <class T>
struct PairColumns {
  u32 memory;
  const char* data;
  bool like_x;

  __device__ __forceinline__ u32 at(int slot) const { return memory + slot * (kPairThreads * 16); }

  __device__ __forceinline__ void fetch(int slot, u32 column) const {
    if (like_x) copy_async(at(slot), data + column * T::kSize, 16);
  }

  __device__ __forceinline__ void read(int slot, Unit<T, 16>& unit) const {
    if (like_x) kw::load_shared<16>(at(slot), unit.word);
  }
};

template <class T>
__device__ __forceinline__ void norm_pair(const Params& p) {
  using Vector = Unit<T, 16>;
  constexpr u32 kCount = Vector::kCount, kStride = kWarp * 16;
  __shared__ PairScratch scratch;
  __shared__ __align__(128) uint4 memory[2][kPairUnits][kPairThreads];  // of weight and bias

  begin<true>(p, scratch);
  const u32 thread = cluster_rank(p) * blockDim.x + threadIdx.x, units = static_cast<u32>(p.cols) / kCount;
  const u32 slots = p.slots, first = thread / kWarp * kWarp * slots + thread % kWarp;
  const i64 first_row = static_cast<i64>(blockIdx.x >> p.cluster_log2) * kPairRows;
  const bool both = first_row + 1 < p.rows;
  auto has = [&](int s) { return s < slots && first + s * kWarp < units; };
  auto has_row = [&](int i) { return i == 0 || both; };
  auto row_of = [&](auto* tensor, i64 pitch, int i) { return tensor + (first_row + i) * pitch + first * 16; };

  const u64 policy = l2_policy(p.keep);
  Vector in[kPairRows][kPairUnits], add[kPairRows][kPairUnits];
#pragma unroll
  for (int i = 0; i < kPairRows; ++i) {
    const char *x = row_of(p.x, p.x_pitch, i), *residual = row_of(p.residual, p.residual_pitch, i);
#pragma unroll
    for (int s = 0; s < kPairUnits; ++s) {
      in[i][s].clear(), add[i][s].clear();
      if (has(s) && has_row(i)) load_vector(x + s * kStride, in[i][s].word, policy);
      if (has(s) && has_row(i)) load_vector(residual + s * kStride, add[i][s].word, policy);
    }
  }
  const PairColumns<T> weights{shared_address(memory[0][0] + threadIdx.x), p.weight, p.weight_kind == KW_WEIGHT_LIKE_X};
  const PairColumns<T> biases{shared_address(memory[1][0] + threadIdx.x), p.bias, p.bias_kind == KW_WEIGHT_LIKE_X};
  auto column = [&](int s) { return (first + s * kWarp) * kCount; };
#pragma unroll
  for (int s = 0; s < kPairUnits; ++s) {
    if (!has(s)) break;
    weights.fetch(s, column(s));
    biases.fetch(s, column(s));
  }
  copies_commit();

  auto unpack = [&](int i, int s, float (&h)[kCount]) {
    float r[kCount];
    in[i][s].unpack(h);
    add[i][s].unpack(r);
    add_to(h, r);
  };
  Moments of_warp[kPairRows];
#pragma unroll
  for (int i = 0; i < kPairRows; ++i) {
    Tally<true> tally;
    char* sum = row_of(p.sum, p.sum_pitch, i);
#pragma unroll
    for (int s = 0; s < kPairUnits; ++s) {
      if (s >= slots) break;
      float h[kCount];
      unpack(i, s, h);
      if (has(s) && has_row(i)) store_unit<T, 16>(sum + s * kStride, h);
      if (s == 0) tally.begin(h);
      if (has(s)) tally.take(h);
    }
    of_warp[i] = tally.of_warp();
  }
#pragma unroll
  for (int i = 0; i < kPairRows; ++i) {
#pragma unroll
    for (int s = 0; s < kPairUnits; ++s) compute_anew(in[i][s].word), compute_anew(add[i][s].word);
  }
  copies_wait<0>();
  Statistics of_row[kPairRows];
  pair_statistics(p, of_warp, scratch, of_row);

#pragma unroll
  for (int i = 0; i < kPairRows; ++i) {
    if (thread == 0 && has_row(i)) store_statistics<true>(p, first_row + i, of_row[i]);
  }
#pragma unroll
  for (int s = 0; s < kPairUnits; ++s) {
    if (!has(s)) break;
    Columns<true, T, 16> columns;
    weights.read(s, columns.weight);
    biases.read(s, columns.bias);
#pragma unroll
    for (int i = 0; i < kPairRows; ++i) {
      if (!has_row(i)) break;
      float h[kCount];
      unpack(i, s, h);
      normalise(p, of_row[i], column(s), columns, h);
      store_unit<T, 16>(row_of(p.y, p.y_pitch, i) + s * kStride, h);
    }
  }
}

#endif

}  // namespace kw
