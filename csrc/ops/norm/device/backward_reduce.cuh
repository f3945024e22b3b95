// SPDX-License-Identifier: MIT
// The sums over a row that its derivatives need: made by lanes, then warps, then blocks of a cluster.
#pragma once

#include "device/reduce.cuh"
#include "ops/norm/device/backward_pipeline.cuh"
#include "ops/norm/geometry.h"

namespace kw {

// Of a part of a row, with g = dy * weight.
template <bool kCentered>
struct RowMoments;

template <>
struct alignas(8) RowMoments<false> {
  float squares;   // sum of h * h
  float products;  // sum of g * h
};

template <>
struct alignas(16) RowMoments<true> {
  float squares;   // sum of (h - mean)^2
  float products;  // sum of g * (h - mean)
  float slopes;    // sum of g
  float mean;      // of h
};

// What has to be there before a row's sums can be used. Of each more than one: those of rows after are written
// meanwhile.
template <bool kCentered, u32 kWarps, u32 kSides, u32 kTeams>
struct alignas(16) BackwardScratch {
  static constexpr u32 kTeam = kWarps < kTeamWarps ? kWarps : kTeamWarps;
  RowMoments<kCentered> warp[2][kWarps];
  RowMoments<kCentered> block[kTeams][kSides][kClusterParts];  // of so many rows a cluster may have sums under way
  float warp_count[kTeam];                                     // columns that each warp of a team has
  float warp_inverse[kTeam];                                   // one over them
  float block_count[kClusterParts];                            // columns that each block of a cluster has
  float block_inverse;                                         // one over those of this block
  u64 barrier[kTeams][kSides];
};

// One of two sums of lanes `mask` apart: of the other, its lane has what this one had.
__device__ __forceinline__ void fold_other(float& first, float second, u32 mask) {
  const bool upper = (threadIdx.x & mask) != 0;
  const float given = upper ? first : second;
  first = (upper ? second : first) + shuffle_xor(given, mask);
}

__device__ __forceinline__ void add_other(float& value, u32 mask, u32 group) {
  const float other = shuffle_xor(value, mask);
  if (mask < group) value += other;
}

// A sum over parts, around a pivot that all parts share: any number no further from the mean than the row's elements
// are. Around a mean of k of n elements, at most n / k times as much is lost to cancellation as by reading the row
// twice.
template <bool kCentered>
struct Sums;

template <>
struct Sums<false> {
  float squares = 0.0f, products = 0.0f;

  __device__ __forceinline__ void add(float g, float h) {
    squares = fmaf(h, h, squares);
    products = fmaf(g, h, products);
  }

  __device__ __forceinline__ void add(const RowMoments<false>& part, float, float) {
    squares += part.squares;
    products += part.products;
  }

  __device__ __forceinline__ void exchange(u32 mask, u32 group) {
    add_other(squares, mask, group);
    add_other(products, mask, group);
  }

  // In five steps, from lanes' sums to the warp's: in the end `squares` is the whole of one of them, which() a lane.
  __device__ __forceinline__ void fold(u32 step) {
    const u32 mask = kWarp / 2 >> step;
    if (step == 0) {
      fold_other(squares, products, mask);
    } else {
      squares += shuffle_xor(squares, mask);
    }
  }
  static __device__ __forceinline__ u32 which(u32 lane) { return lane / 16; }

  __device__ __forceinline__ RowMoments<false> moments(float, float) const { return {squares, products}; }
};

template <>
struct Sums<true> {
  float squares = 0.0f, products = 0.0f, slopes = 0.0f, offs = 0.0f;

  // `off` is h less the pivot.
  __device__ __forceinline__ void add(float g, float off) {
    squares = fmaf(off, off, squares);
    products = fmaf(g, off, products);
    slopes += g;
    offs += off;
  }

  __device__ __forceinline__ void add(const RowMoments<true>& part, float count, float pivot) {
    const float off = part.mean - pivot;
    squares += fmaf(count * off, off, part.squares);
    products += fmaf(part.slopes, off, part.products);
    slopes += part.slopes;
    offs = fmaf(count, off, offs);
  }

  __device__ __forceinline__ void exchange(u32 mask, u32 group) {
    add_other(squares, mask, group);
    add_other(products, mask, group);
    add_other(slopes, mask, group);
    add_other(offs, mask, group);
  }

  __device__ __forceinline__ void fold(u32 step) {
    const u32 mask = kWarp / 2 >> step;
    if (step == 0) {
      fold_other(squares, slopes, mask);
      fold_other(products, offs, mask);
    } else if (step == 1) {
      fold_other(squares, products, mask);
    } else {
      squares += shuffle_xor(squares, mask);
    }
  }
  static __device__ __forceinline__ u32 which(u32 lane) { return lane / 8; }

  // `inverse` is one over the number of elements.
  __device__ __forceinline__ RowMoments<true> moments(float pivot, float inverse) const {
    const float off = offs * inverse;
    return {fmaf(-off, offs, squares), fmaf(-off, slopes, products), slopes, pivot + off};
  }
};

// Of parts that lanes have, one each, of `count` elements, kMost lanes side by side; `inverse` is one over all
// elements.
template <u32 kMost, bool kCentered>
__device__ __forceinline__ RowMoments<kCentered> merged_of(const RowMoments<kCentered>& part, bool there_is_one,
                                                           float count, float pivot, float inverse) {
  Sums<kCentered> sums;
  if (there_is_one) sums.add(part, count, pivot);
#pragma unroll
  for (u32 mask = kMost / 2; mask > 0; mask /= 2) sums.exchange(mask, kMost);
  return sums.moments(pivot, inverse);
}

// Of `parts` parts in shared memory, at most kMost, of counts[i] elements each; `inverse` is one over all of them.
template <u32 kMost, bool kCentered>
__device__ __forceinline__ RowMoments<kCentered> merged(const RowMoments<kCentered>* part, u32 parts,
                                                        const float* counts, float inverse) {
  const u32 mine = threadIdx.x % kMost;
  Sums<kCentered> sums;
  float pivot = 0.0f;
  if constexpr (kCentered) pivot = part[0].mean;
  if (mine < parts) sums.add(part[mine], kCentered ? counts[mine] : 0.0f, pivot);
#pragma unroll
  for (u32 mask = kMost / 2; mask > 0; mask /= 2) sums.exchange(mask, kMost);
  return sums.moments(pivot, inverse);
}

// dx = dsum + g * rstd - (h - mean) * slope - shift
struct Slopes {
  float rstd, mean, slope, shift;
};

// row() is asked for only where mean and rstd were given. Where there is no row, dx is dsum and nothing is added to the
// sums over rows.
template <bool kCentered, class Row>
__device__ __forceinline__ Slopes slopes_of(const RowMoments<kCentered>& sums, const KwNormBackwardParams& p,
                                            bool there_is_one, Row row) {
  Slopes of;
  of.rstd = rsqrt_approx(fmaf(sums.squares, p.inverse_cols, p.eps));
  of.mean = of.shift = 0.0f;
  if constexpr (kCentered) of.mean = sums.mean;
  float products = sums.products;
  if (p.rstd != nullptr && there_is_one) {
    const i64 index = row();
    of.rstd = p.rstd[index];
    if constexpr (kCentered) {
      of.mean = p.mean[index];
      products = fmaf(sums.slopes, sums.mean - of.mean, products);
    }
  }
  if (!there_is_one) of.rstd = of.mean = 0.0f;  // or a NaN might be added
  of.slope = products * p.inverse_cols * of.rstd * of.rstd * of.rstd;
  if constexpr (kCentered) of.shift = sums.slopes * p.inverse_cols * of.rstd;
  return of;
}

template <class T, bool kCentered, bool kOn16, u32 kLag, u32 kColumns>
struct BackwardMerge : BackwardPipeline<T, kOn16, kLag, kColumns> {
  using Pipeline = BackwardPipeline<T, kOn16, kLag, kColumns>;
  using Pipeline::lane, Pipeline::p, Pipeline::part, Pipeline::team, Pipeline::warp;
  static constexpr u32 kSides = 2 * kLag;
  // Small enough for two blocks a multiprocessor where a wide one has one team, and where it has more, for its rows.
  using Scratch = BackwardScratch<kCentered, Pipeline::kWide ? kTeamWarps : kMaxWarps, Pipeline::kWide ? kSides : 4,
                                  Pipeline::kClusterTeams>;
  static_assert(!Pipeline::kWide || sizeof(Scratch) <= (Pipeline::kClusterTeams > 1 ? 2048 : 1024));

  Scratch& scratch;

  __device__ __forceinline__ BackwardMerge(const KwNormBackwardParams& params, Scratch& shared, u32 memory)
      : Pipeline(params, memory), scratch(shared) {}

  __device__ __forceinline__ void begin_cluster() {
#ifdef KW_HAS_CLUSTER
    if (!p.cluster) return;
    if (threadIdx.x == 0) {
#pragma unroll
      for (auto& barriers : scratch.barrier) {
#pragma unroll
        for (u64& barrier : barriers) {
          barrier_init(&barrier);
          barrier_expect(&barrier, p.parts * sizeof(RowMoments<kCentered>));
        }
      }
    }
    cluster_arrive();
#endif
  }

  __device__ __forceinline__ u32 cluster_team() const { return Pipeline::kClusterTeams > 1 ? team : 0; }

  // From the warps' sums to the team's, which a block of a cluster tells the others.
  __device__ __forceinline__ void begin_merge(RowMoments<kCentered>& sums, u32 turn) {
    // Where the others have no use for it before the cluster has agreed, the first warp merges alone.
    if (p.team_warps > 1 && ((kLag == 1 && !Pipeline::kWide) || any_of_warp(warp() == 0))) {
      sums = merged<kTeamWarps>(&scratch.warp[turn % 2][team * p.team_warps], p.team_warps, scratch.warp_count,
                                kCentered ? scratch.block_inverse : 0.0f);
    }
#ifdef KW_HAS_CLUSTER
    if (!p.cluster) return;
    if (turn == 0) cluster_wait();
    const u32 side = turn % kSides, mine = cluster_team();
    constexpr u32 kValues = sizeof(RowMoments<kCentered>) / sizeof(float);
    const u32 which = lane() % kValues, to = lane() / kValues;
    if (warp() != 0 || to >= p.parts) return;
    float value = which == 0 ? sums.squares : sums.products;
    if constexpr (kCentered) value = which < 2 ? value : which == 2 ? sums.slopes : sums.mean;
    store_async(&scratch.block[mine][side][part()].squares + which, &scratch.barrier[mine][side], to, value);
#endif
  }

  __device__ __forceinline__ void end_merge(RowMoments<kCentered>& sums, u32 turn) {
#ifdef KW_HAS_CLUSTER
    if (!p.cluster) return;
    const u32 side = turn % kSides, mine = cluster_team();
    u64* barrier = &scratch.barrier[mine][side];
    barrier_wait_shared(barrier, turn / kSides % 2);
    if (warp() == 0 && lane() == 0) barrier_expect(barrier, p.parts * sizeof(RowMoments<kCentered>));
    sums = merged<kClusterParts>(scratch.block[mine][side], p.parts, scratch.block_count, p.inverse_cols);
#endif
  }
};

}  // namespace kw
