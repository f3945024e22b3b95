// SPDX-License-Identifier: MIT
// From a thread's sums over a row to those of all that share the row: warps of a block, blocks of a cluster.
#pragma once

#include "ops/norm/device/backward_moments.cuh"
#include "ops/norm/device/backward_stage.cuh"

namespace kw {

template <class T, bool kCentered, Lie kLie, u32 kLag, u32 kColumns>
struct BackwardMerge : BackwardStage<T, kLie, kLag, kColumns> {
  using Stage = BackwardStage<T, kLie, kLag, kColumns>;
  using Stage::lane, Stage::p, Stage::part, Stage::team, Stage::warp;
  static constexpr u32 kSides = 2 * kLag;
  // Small enough for two blocks a multiprocessor where a wide one has one team, and where it has more, for its rows.
  using Scratch = BackwardScratch<kCentered, Stage::kWide ? kTeamWarps : kMaxWarps, Stage::kWide ? kSides : 4,
                                  Stage::kClusterTeams>;
  static_assert(!Stage::kWide || sizeof(Scratch) <= (Stage::kClusterTeams > 1 ? 2048 : 1024));

  Scratch& scratch;
  u32 done = 0;  // rows of times before

  __device__ __forceinline__ BackwardMerge(const KwNormBackwardParams& params, Scratch& shared, u32 memory)
      : Stage(params, memory), scratch(shared) {}

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

  __device__ __forceinline__ u32 cluster_team() const { return Stage::kClusterTeams > 1 ? team : 0; }

  // From the warps' sums to the team's, which a block of a cluster tells the others.
  __device__ __forceinline__ void begin_merge(RowMoments<kCentered>& sums, u32 turn) {
    turn += done;
    // Where the others have no use for it before the cluster has agreed, the first warp merges alone.
    if (p.team_warps > 1 && ((kLag == 1 && !Stage::kWide) || any_of_warp(warp() == 0))) {
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
    turn += done;
#ifdef KW_HAS_CLUSTER
    if (!p.cluster) return;
    const u32 side = turn % kSides, mine = cluster_team();
    u64* barrier = &scratch.barrier[mine][side];
    barrier_wait_shared(barrier, turn / kSides % 2);
    if (warp() == 0 && lane() == 0) barrier_expect(barrier, p.parts * sizeof(RowMoments<kCentered>));
    sums = merged<kParts>(scratch.block[mine][side], p.parts, scratch.block_count, p.inverse_cols);
#endif
  }
};

}  // namespace kw
