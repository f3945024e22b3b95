// SPDX-License-Identifier: MIT
// From a warp's sums over a row to its derivatives' slopes where threads are wide: the first warp of a row's in a
// block, which leads, makes them alone, and the others read what it has made.
#pragma once

#include "ops/norm/device/backward_loose.cuh"
#include "ops/norm/device/backward_moments.cuh"
#include "ops/norm/device/backward_stage.cuh"

namespace kw {

#ifdef KW_HAS_CLUSTER

constexpr u32 kLeadWarps = 8;  // of a block that share a row, at most

template <bool kCentered, u32 kTeams>
struct alignas(16) LeadScratch {
  static constexpr u32 kSides = 2;  // of what other blocks write: those of a row after may come early
  float sums[kTeams][kLeadWarps][sizeof(Sums<kCentered>) / sizeof(float)];
  RowMoments<kCentered> block[kTeams][kSides][kParts];
  Slopes slopes[kTeams];
  float pivot[kTeams][kLeadWarps];  // that a warp's sums are around
  float warp_count[kLeadWarps];     // columns that each warp of a team has
  float warp_inverse[kLeadWarps];   // one over them
  float block_count[kParts];        // columns that each block of the cluster has
  float block_inverse;              // one over those of this block
  u64 barrier[kTeams][kSides], told[kTeams], ready[kTeams];
};

template <class T, bool kCentered, Lie kLie, u32 kLag, u32 kColumns>
struct BackwardLead : BackwardStage<T, kLie, kLag, kColumns> {
  using Stage = BackwardStage<T, kLie, kLag, kColumns>;
  using Stage::lane, Stage::p, Stage::part, Stage::team, Stage::warp;
  using Moments = RowMoments<kCentered>;
  using Scratch = WithLoose<LeadScratch<kCentered, Stage::kClusterTeams>>;
  // Small enough for two blocks a multiprocessor where one has one team, and where it has more, for its rows.
  static_assert(sizeof(Scratch) <= (Stage::kClusterTeams > 1 ? 2048 : 1024));
  static constexpr u32 kSides = Scratch::kSides;
  static constexpr u32 kSums = sizeof(Moments) / sizeof(float), kSumLanes = kWarp / kSums;

  Scratch& scratch;
  u32 done = 0;  // rows of times before

  __device__ __forceinline__ BackwardLead(const KwNormBackwardParams& params, Scratch& shared, u32 memory)
      : Stage(params, memory), scratch(shared) {}

  __device__ __forceinline__ void begin_cluster() {
    if (threadIdx.x == 0) {
#pragma unroll
      for (u32 of = 0; of < Stage::kClusterTeams; ++of) {
        barrier_init(&scratch.told[of], p.team_warps * kWarp);
        barrier_init(&scratch.ready[of], kWarp + 1);
#pragma unroll
        for (u64& barrier : scratch.barrier[of]) {
          barrier_init(&barrier);
          barrier_expect(&barrier, p.parts * sizeof(Moments));
        }
      }
    }
    cluster_arrive();
  }

  // Until its other blocks have begun.
  __device__ __forceinline__ void wait_for_cluster() const {
    if (this->time == 0) cluster_wait();
  }

  __device__ __forceinline__ u32 cluster_team() const { return Stage::kClusterTeams > 1 ? team : 0; }

  // The warp's sums, which fold() has made. All have read those of the row before once they have its slopes. Each lane
  // arrives for itself, though one could for all: so tools see as well that it has read the slopes of the row before.
  __device__ __forceinline__ void leave(const Sums<kCentered>& sums, float pivot) const {
    const u32 mine = cluster_team();
    if (kCentered && lane() == 0) scratch.pivot[mine][warp()] = pivot;
    if (lane() % kSumLanes == 0) scratch.sums[mine][warp()][sums.which(lane())] = sums.squares;
    barrier_arrive(&scratch.told[mine]);
  }

  // `at` counts the rows of times before too. At the end of a time warps leave one row more, which is none.
  __device__ __forceinline__ void wait_for_sums(u32 at) const {
    barrier_wait_shared(&scratch.told[cluster_team()], (at + this->time) % 2);
  }

  // Of the first warp, which sends nothing of that one more: it is waited for all the same, as synccheck asks of every
  // phase of a barrier that is arrived at again.
  __device__ __forceinline__ void pass_over_last() const {
    if (this->time > 0) wait_for_sums(done - 1);
  }

  // Of the first warp: tells all blocks what this one has of a row.
  __device__ __forceinline__ void send(u32 turn) {
    turn += done;
    const u32 mine = cluster_team(), other = lane() % kLeadWarps;
    wait_for_sums(turn);
    Moments sums{};
    if (other < p.team_warps) {
      Sums<kCentered> of;
      const float* from = scratch.sums[mine][other];
      of.squares = from[0];
      of.products = from[1];
      if constexpr (kCentered) of.slopes = from[2], of.offs = from[3];
      sums = of.moments(kCentered ? scratch.pivot[mine][other] : 0.0f, kCentered ? scratch.warp_inverse[other] : 0.0f);
    }
    float pivot = 0.0f;
    if constexpr (kCentered) pivot = shuffle_from(sums.mean, 0);
    sums = merged_of<kLeadWarps>(sums, other < p.team_warps, kCentered ? scratch.warp_count[other] : 0.0f, pivot,
                                 kCentered ? scratch.block_inverse : 0.0f);
    const u32 side = turn % kSides, which = lane() % kSums, to = lane() / kSums;
    barrier_arrive(&scratch.ready[mine]);  // each lane has read what may be written again once the slopes are there
    if (to >= p.parts) return;
    float value = which == 0 ? sums.squares : sums.products;
    if constexpr (kCentered) value = which < 2 ? value : which == 2 ? sums.slopes : sums.mean;
    store_async(&scratch.block[mine][side][part()].squares + which, &scratch.barrier[mine][side], to, value);
  }

  // Of the second warp: makes the row's slopes for the team, whose other warps wait.
  __device__ __forceinline__ void make_slopes(u32 turn) {
    const u32 at = turn + done, side = at % kSides, mine = cluster_team();
    u64* barrier = &scratch.barrier[mine][side];
    barrier_wait_shared(barrier, at / kSides % 2);
    wait_for_sums(at);  // long since there: says to tools that all have read the slopes of the row before
    if (lane() == 0) barrier_expect(barrier, p.parts * sizeof(Moments));
    const Moments sums = merged<kParts>(scratch.block[mine][side], p.parts, scratch.block_count, p.inverse_cols);
    const Slopes slopes = slopes_of(sums, p, true, [&] { return this->first_row() + turn * p.step; });
    if (lane() == 0) {
      scratch.slopes[mine] = slopes;
      barrier_arrive(&scratch.ready[mine]);
    }
  }

  __device__ __forceinline__ Slopes slopes(u32 turn) const {
    const u32 mine = cluster_team();
    barrier_wait_shared(&scratch.ready[mine], (turn + done) % 2);
    return scratch.slopes[mine];
  }
};

#endif

}  // namespace kw
