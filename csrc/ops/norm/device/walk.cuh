// SPDX-License-Identifier: MIT
// Many long rows: clusters that stay and walk over rows that begin equally far off 16 bytes. A thread has the same
// columns of all of them. So weight and bias are brought into place once, and each unit of the next row is asked for
// where this row's has just been used: loads are on their way while a row is finished and while threads meet.
#pragma once

#include "ops/norm/device/walk_columns.cuh"
#include "ops/norm/device/walk_meeting.cuh"

namespace kw {

#ifdef KW_HAS_CLUSTER

__device__ __forceinline__ char* walk_shared() {
  extern __shared__ __align__(128) char norm_walk_shared[];
  return norm_walk_shared;
}

template <class Vector>
__device__ __forceinline__ Vector flipped(const Vector& unit, u32 bits) {
  Vector other;
#pragma unroll
  for (int i = 0; i < Vector::kWords; ++i) other.word[i] = unit.word[i] ^ bits;
  return other;
}

// Which rows a cluster walks over: numbers phase, phase + period, … lie alike, and so many clusters share them.
struct WalkRows {
  u32 row, step, rows;

  // There are no more clusters than rows, which are fewer than 2^30.
  __device__ __forceinline__ explicit WalkRows(const Params& p) : rows(static_cast<u32>(p.rows)) {
    const u32 cluster = blockIdx.x >> p.cluster_log2, clusters = gridDim.x >> p.cluster_log2, period = p.group;
    row = cluster;
    step = period * (clusters / period + (cluster % period < clusters % period));
  }
};

// What a thread holds of a row: up to kUnits units in registers, and where its weights are.
template <bool kCentered, class T, bool kAdd, int kUnits>
struct WalkUnits {
  using Vector = Unit<T, 16>;
  using Columns = WalkColumns<T, kCentered>;
  static constexpr int kCount = Vector::kCount;
  static constexpr u32 kStride = kWarp * 16;
  const Params& p;
  u32 first, offset, mine;  // number of the first unit, its place in a row in bytes, and how many there are
  u32 weights;
  u64 policy;
  Vector in[kUnits], add[kAdd ? kUnits : 1];

  // `thread` is the cluster's. A warp's units lie together.
  __device__ __forceinline__ WalkUnits(const Params& params, const Span& span, u32 thread) : p(params) {
    const u32 slots = p.slots;
    first = thread / kWarp * kWarp * slots + thread % kWarp;
    offset = (span.head + first * kCount) * T::kSize;
    const u32 filled = first < span.units ? (span.units - first + kWarp - 1) / kWarp : 0;
    mine = filled < slots ? filled : slots;
    weights = shared_address(walk_shared()) + threadIdx.x / kWarp * slots * Columns::kStride + threadIdx.x % kWarp * 16;
    policy = l2_policy(p.keep);
  }

  __device__ __forceinline__ bool has(int s) const { return s < mine; }

  __device__ __forceinline__ void ask(i64 row) {
#pragma unroll
    for (int s = 0; s < kUnits; ++s) {
      in[s].clear();
      if (has(s)) load_vector(row_at(p.x, row, p.x_pitch, offset) + s * kStride, in[s].word, policy);
      if constexpr (kAdd) {
        add[s].clear();
        if (has(s)) load_vector(row_at(p.residual, row, p.residual_pitch, offset) + s * kStride, add[s].word, policy);
      }
    }
  }

  __device__ __forceinline__ Columns columns(const char* data, u32 to) const {
    return {data == nullptr ? nullptr : data + offset, to};
  }

  __device__ __forceinline__ void ask_for_weights() const {
    columns(p.weight, weights).ask(mine, 1.0f);
    if constexpr (kCentered) columns(p.bias, weights + Columns::kRun).ask(mine, 0.0f);
    copies_commit();
  }

  __device__ __forceinline__ void place_weights(u32 units) const {
    copies_wait<0>();
    __syncwarp();
    columns(p.weight, weights).place(mine, p.slots, units - first);
    if constexpr (kCentered) columns(p.bias, weights + Columns::kRun).place(mine, p.slots, units - first);
  }

  // `zero` is not known to be: else all the floats are kept from the first use to the second, outside registers.
  __device__ __forceinline__ void unpack(int s, u32 zero, float (&h)[kCount]) const {
    flipped(in[s], zero).unpack(h);
    if constexpr (kAdd) {
      float r[kCount];
      flipped(add[s], zero).unpack(r);
      add_to(h, r);
    }
  }

  // And writes the sums.
  __device__ __forceinline__ void tally(i64 row, Tally<kCentered>& tally) const {
    char* sum = kAdd ? row_at(p.sum, row, p.sum_pitch, offset) : nullptr;
#pragma unroll
    for (int s = 0; s < kUnits; ++s) {
      float h[kCount];
      unpack(s, 0, h);
      if constexpr (kAdd) {
        if (has(s)) store_unit<T, 16>(sum + s * kStride, h);
      }
      if (s == 0) tally.begin(h);
      if (!kCentered || has(s)) tally.take(h);  // zeros add nothing to a sum of squares
    }
  }

  // And asks for row `next` if there is one.
  __device__ __forceinline__ void finish(i64 row, i64 next, bool more, const Statistics& of_row) {
    char* y = row_at(p.y, row, p.y_pitch, offset);
    const char* x = row_at(p.x, next, p.x_pitch, offset);
    const char* residual = kAdd ? row_at(p.residual, next, p.residual_pitch, offset) : nullptr;
    const u32 asked = more ? mine : 0;
#pragma unroll
    for (int s = 0; s < kUnits; ++s) {
      if (!has(s)) continue;
      float h[kCount];
      unpack(s, p.row_is_a_warp, h);
      Vector weight, bias;
      load_shared<16>(weights + s * Columns::kStride, weight.word);
      if constexpr (kCentered) load_shared<16>(weights + s * Columns::kStride + Columns::kRun, bias.word);
      apply<kCentered>(of_row, weight, bias, h);
      store_unit<T, 16>(y + s * kStride, h);
      if (s < asked) load_vector(x + s * kStride, in[s].word, policy);
      if constexpr (kAdd) {
        if (s < asked) load_vector(residual + s * kStride, add[s].word, policy);
      }
    }
  }
};

// Weight and bias are of x's type or missing; all tensors' rows lie alike. A cluster has two blocks at least: they
// write into each other's memory, which a launch without clusters does not allow.
template <bool kCentered, class T, bool kAdd, int kUnits>
__device__ __forceinline__ void norm_walk(const Params& p) {
  using Units = WalkUnits<kCentered, T, kAdd, kUnits>;
  using Part = typename Tally<kCentered>::Part;
  __shared__ WalkScratch<Part> scratch;

  const u32 rank = cluster_rank(p), warps = blockDim.x / kWarp, blocks = 1u << p.cluster_log2;
  const Meeting<kCentered> meeting{scratch, rank * warps + threadIdx.x / kWarp, warps * blocks, blocks};
  meeting.begin();
  allow_next_kernel();
  wait_for_previous_kernel();

  WalkRows walk(p);
  const Span span = walk_span<T>(p, walk.row);
  const u32 thread = rank * blockDim.x + threadIdx.x;
  Units units(p, span, thread);
  units.ask(walk.row);
  WalkEdge<T> edge;
  if (span.units * Units::kCount < p.cols) edge.find(thread, span, p.cols);
  edge.ask(p, walk.row, kAdd);
  units.ask_for_weights();
  edge.template bring<kCentered>(p, scratch.weight, scratch.bias);
  const float count = kCentered ? warp_sum(static_cast<float>(units.mine * Units::kCount + (edge.column >= 0))) : 0.0f;
  units.place_weights(span.units);
  cluster_wait();

#pragma unroll 1
  for (u32 number = 0; walk.row < walk.rows; ++number, walk.row += walk.step) {
    Tally<kCentered> tally;
    units.tally(walk.row, tally);
    edge.take(p, walk.row, kAdd);
    if (edge.column >= 0) tally.take(edge.h);
    const Statistics of_row = meeting.statistics(p, tally.of_warp(count), number);
    if (thread == 0) store_statistics<kCentered>(p, walk.row, of_row);

    const u32 next = walk.row + walk.step;
    units.finish(walk.row, next, next < walk.rows, of_row);
    edge.template finish<kCentered>(p, walk.row, of_row, scratch.weight, scratch.bias);
    if (next < walk.rows) edge.ask(p, next, kAdd);
  }
}

#endif

}  // namespace kw
