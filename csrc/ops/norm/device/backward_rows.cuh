// SPDX-License-Identifier: MIT
// Derivatives of a norm. What a thread sums over its rows stays in registers. While the sums over a row are brought
// together, the threads are busy with the row before.
#pragma once

#include "ops/norm/device/backward_row.cuh"

namespace kw {

template <class T, bool kCentered, Lie kLie, u32 kLag, u32 kColumns>
class NormBackward : public BackwardRow<T, kCentered, kLie, kLag, kColumns> {
  using Row = BackwardRow<T, kCentered, kLie, kLag, kColumns>;
  using Stage = BackwardStage<T, kLie, kLag, kColumns>;
  using Row::begin_results, Row::clear, Row::dbias, Row::differentiate, Row::done, Row::dsum, Row::dweight, Row::dx;
  using Row::fetch_sums, Row::kEnds, Row::scratch, Row::thread_sums;
  using Stage::buffer, Stage::end_turn, Stage::fetch, Stage::kAligned, Stage::kCopies, Stage::kEdges;
  using Stage::kInPhase, Stage::kIsLoose, Stage::kStages, Stage::lane, Stage::next_row, Stage::p, Stage::stage_bytes;
  using Stage::team, Stage::turns, Stage::warp;

 public:
  using Row::Row;
  using typename Row::Scratch;

  __device__ __forceinline__ void run() {
    if constexpr (!kInPhase && kCentered) this->count_columns(scratch);
    this->begin_cluster();
    allow_next_kernel();
    wait_for_previous_kernel();
    if constexpr (!kInPhase) {
      add_rows();
    } else {
#pragma unroll 1
      for (u32 time = 0; time < p.times; ++time) {
        this->begin_time(time);
        if (kIsLoose && time > 0 && any_of_warp(turns == 0)) break;
        this->begin_rows();
        begin_results();
        __syncthreads();  // all have done with what count_columns() made before
        if constexpr (kCentered) this->count_columns(scratch);
        add_rows();
        done += turns;
      }
    }
  }

 private:
  __device__ __forceinline__ void add_rows() {
    clear();
    if constexpr (kIsLoose) {
      begin_loose_rows();
      do_loose_rows();
    } else {
      begin_rows_ahead();
      do_rows();
    }
    copies_wait<0>();
    if (p.dweight == nullptr && p.dbias == nullptr) return;
    if constexpr (kIsLoose) this->follow_time();
    __syncwarp();  // all have read the last row
    constexpr u32 kThreadQuads = kColumns / 4;
    const typename Stage::Place& here = *this;
    keep_quads(here, 0, dweight);
    if constexpr (kCentered) keep_quads(here, kThreadQuads, dbias);
    if constexpr (kIsLoose) {
      deposit_columns(here, kCentered ? 2 * kThreadQuads : kThreadQuads);
      this->leave_loose();
    } else {
      deposit(here, kCentered ? 2 * kThreadQuads : kThreadQuads);
    }
  }

  __device__ __forceinline__ void begin_rows_ahead() {
#pragma unroll
    for (u32 stage = 2; stage < kStages; ++stage) {
#pragma unroll
      for (int s = 0; s < kCopies; ++s) fetch(buffer + stage * stage_bytes(), kNever, s);
    }
#pragma unroll
    for (u32 stage = 0; stage < 2; ++stage) {
#pragma unroll
      for (int s = 0; s < kCopies; ++s) {
        if (kEnds && stage == 0 && s == 0) {
          this->fetch_beginning(buffer);
        } else {
          fetch(buffer + stage * stage_bytes(), stage, s);
        }
      }
      next_row();
    }
    this->keep_weights();
  }

  // Three rows at once. Not unrolled: done once or twice.
  __device__ __forceinline__ void begin_loose_rows() {
    const char* of_dsum = dsum;
    this->begin_loose();
#pragma unroll 1
    for (u32 stage = 0; stage < kStages; ++stage) {
#pragma unroll
      for (int s = 0; s < kCopies; ++s) fetch(buffer + stage * stage_bytes(), stage, s);
      if (this->is(kHasLoose)) this->fetch_loose(stage, of_dsum);
      of_dsum += p.dsum_step;
      next_row();
      if (stage == 0) this->keep_weights();  // later they would wait for the rows behind it too
    }
    if (p.dsum != nullptr) fetch_sums(0);
    this->wait_for_cluster();
  }

  __device__ __forceinline__ void do_rows() {
    u32 stage = buffer + 2 * stage_bytes(), stage_ahead = buffer;
    RowMoments<kCentered> sums{};
    for (u32 ahead = 0; any_of_warp(ahead <= turns + (kLag - 1)); ++ahead) {
      // The row kLag before `ahead` is finished in this turn; before the first there is none, and all of it is zeros.
      const u32 turn = ahead - kLag;
      this->forget_shapes();
      const bool summed = kLag == 1 ? ahead > 0 : any_of_warp(ahead - 1 < turns);
      if (summed) this->begin_merge(sums, ahead - 1);
      copies_wait<1>();
      if (kEnds && ahead == end_turn) this->read_end(stage_ahead);
      if constexpr (kCentered || !kAligned) __syncwarp();  // something of what other lanes copied is read
      const float pivot = kCentered ? this->pivot_of(stage_ahead) : 0.0f;
      if constexpr (kEdges) {
        if constexpr (kCentered) __syncwarp();  // all have the pivot
        this->fill_around_row(stage_ahead, pivot);
      }
      Sums<kCentered> next = thread_sums(stage_ahead, ahead, pivot, false);
      if (kLag == 1 ? summed : any_of_warp(turn < turns)) this->end_merge(sums, turn);
      const Slopes slopes = slopes_of(sums, p, turn < turns, [&] { return this->first_row() + turn * p.step; });
      differentiate(slopes, stage, turn, next, false, pivot);
      sums = next.moments(pivot, kCentered ? scratch.warp_inverse[warp()] : 0.0f);
      if (p.team_warps > 1) {
        if (lane() == 0) scratch.warp[(ahead + done) % 2][threadIdx.x / kWarp] = sums;
        barrier_of(team + 1, p.team_warps * kWarp);
      } else if constexpr (kCentered || !kAligned) {
        __syncwarp();  // all have read what its lane copies over next
      }
      stage = kLag == 1 ? stage_ahead : after(stage);
      stage_ahead = after(stage_ahead);
    }
  }

  // The first row has nothing before it to be finished meanwhile. A warp's lanes have the same rows.
  __device__ __forceinline__ void do_loose_rows() {
    u32 stage = buffer, stage_ahead = buffer;
    if (this->is(kSends)) this->pass_over_last();
    for (u32 ahead = 0; any_of_warp(ahead <= turns); ++ahead) {
      const u32 turn = ahead - 1;
      const bool loose = this->is(kHasLoose);
      if (ahead > 0 && this->is(kSends)) this->send(turn);
      copies_wait<1>();
      __syncwarp();  // something of what other lanes copied is read
      float pivot = 0.0f;
      Sums<kCentered> next;
      if (any_of_warp(ahead < turns)) {
        if constexpr (kCentered) pivot = this->pivot_of(stage_ahead);
        next = thread_sums(stage_ahead, ahead, pivot, loose);
      }
      if (ahead == 0) {
#pragma unroll
        for (u32 step = 0; step < 5; ++step) next.fold(step);
        this->leave(next, pivot);
      } else {
        if (this->is(kMakesSlopes)) this->make_slopes(turn);
        const Slopes slopes = this->slopes(turn);
        if (loose) this->differentiate_loose(slopes, turn, dx);
        differentiate(slopes, stage, turn, next, loose, pivot);
      }
      stage = stage_ahead;
      stage_ahead = after(stage_ahead);
    }
  }

  __device__ __forceinline__ u32 after(u32 stage) const {
    stage += stage_bytes();
    return stage == buffer + kStages * stage_bytes() ? buffer : stage;
  }
};

template <class T, bool kCentered, Lie kLie, u32 kLag = 1, u32 kColumns = kThreadColumns>
__device__ __forceinline__ void norm_backward(const KwNormBackwardParams& p) {
  extern __shared__ __align__(128) char norm_backward_memory[];  // a copy by a warp fills whole lines
  using Backward = NormBackward<T, kCentered, kLie, kLag, kColumns>;
  __shared__ typename Backward::Scratch scratch;
  Backward(p, scratch, shared_address(norm_backward_memory)).run();
}

}  // namespace kw
