// SPDX-License-Identifier: MIT
// Derivatives of a norm. What a thread sums over its rows stays in registers. While the sums over a row are brought
// together, the threads are busy with the row before.
#pragma once

#include "norm_backward_deposit.cuh"
#include "norm_backward_loose_row.cuh"
#include "norm_backward_merge.cuh"

namespace kw {

// How the sums over a row are brought together.
template <class T, bool kCentered, Lie kLie, u32 kLag, u32 kColumns>
struct BackwardMeeting {
  using Type = BackwardMerge<T, kCentered, kLie, kLag, kColumns>;
};

#ifdef KW_HAS_CLUSTER
template <class T, bool kCentered, u32 kLag>
struct BackwardMeeting<T, kCentered, Lie::kInPhase, kLag, kWideColumns> {
  using Type = BackwardLoose<T, kCentered, Lie::kInPhase, kLag, kWideColumns>;
};
#endif

// kLag as BackwardPlace has it: two where it takes a cluster to make the sums over a row.
template <class T, bool kCentered, Lie kLie, u32 kLag, u32 kColumns>
class NormBackward : public BackwardMeeting<T, kCentered, kLie, kLag, kColumns>::Type {
  using Merge = typename BackwardMeeting<T, kCentered, kLie, kLag, kColumns>::Type;
  using Stage = BackwardStage<T, kLie, kLag, kColumns>;
  using Merge::done, Merge::scratch;
  using Stage::at, Stage::buffer, Stage::column, Stage::dy, Stage::end_turn, Stage::fetch, Stage::first;
  using Stage::h, Stage::has, Stage::kCopies, Stage::kCount, Stage::kSlots;
  using Stage::is_part, Stage::kAligned, Stage::kEdges, Stage::kInPhase, Stage::kIsLoose, Stage::kWide, Stage::part_of;
  using Stage::kStages, Stage::lane;
  using Stage::next_row, Stage::p, Stage::part, Stage::read, Stage::stage_bytes, Stage::team;
  using Stage::turns, Stage::unit, Stage::warp, Stage::weights;
  using typename Stage::Piece;
  // Whether blocks that are no cluster may share a row.
#ifdef KW_HAS_CLUSTER
  static constexpr bool kForeign = !kAligned;
#else
  static constexpr bool kForeign = true;
#endif

  static constexpr bool kEnds = kEdges || !kAligned;  // vectors may reach beyond rows

  const char* dsum;  // rows that are done: at first kLag before the first one, if not kIsLoose
  char* dx;
  float dweight[kSlots][kCount], dbias[kSlots][kCount];
  Piece add[kAligned ? kSlots : 1];  // of dsum, of the row to come

 public:
  using typename Merge::Scratch;

  __device__ __forceinline__ NormBackward(const KwNormBackwardParams& params, Scratch& shared, u32 memory)
      : Merge(params, shared, memory) {
    if constexpr (!kInPhase) begin_results();
  }

  __device__ __forceinline__ void run() {
    if constexpr (!kInPhase) this->count_columns();
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
        this->count_columns();
        add_rows();
        done += turns;
      }
    }
  }

 private:
  __device__ __forceinline__ void begin_results() {
    const i64 before = this->first_row() - (kIsLoose ? 0 : kLag) * p.step;
    const int from = first * 16 - this->lead * T::kSize;
    dsum = p.dsum + before * p.dsum_pitch + from;
    dx = p.dx + before * p.dx_pitch + from;
  }

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
#pragma unroll 1
    for (u32 stage = 0; stage < kStages; ++stage) {
#pragma unroll
      for (int s = 0; s < kCopies; ++s) fetch(buffer + stage * stage_bytes(), stage, s);
      if (this->is(kHasLoose)) this->fetch_loose(stage, of_dsum);
      of_dsum += p.dsum_step;
      next_row();
    }
    this->keep_weights();
    this->begin_loose();
    if (p.dsum != nullptr) fetch_sums(0);
    this->wait_for_cluster();
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
      if constexpr (kAligned) add[s].clear();
#pragma unroll
      for (int i = 0; i < kCount; ++i) dweight[s][i] = dbias[s][i] = 0.0f;
    }
  }

  __device__ __forceinline__ void fetch_sum(u32 turn, int slot) {
    if (kIsLoose ? !this->exists(slot) : p.dsum == nullptr || !has(turn, slot)) return;
    if constexpr (kAligned) {
      if (is_part(slot)) {
        load_part<T::kSize>(dsum + at(slot), add[slot].word, part_of(slot));
      } else {
        load<16>(dsum + at(slot), add[slot].word);
      }
    } else {
      load_first<T>(dsum + at(slot), p.cols - column(slot), p.dsum, this->end_of(p.dsum, p.dsum_pitch), add[0].word);
    }
  }

  __device__ __forceinline__ void fetch_sums(u32 turn) {
#pragma unroll
    for (int s = 0; s < kSlots; ++s) fetch_sum(turn, s);
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

  __device__ __forceinline__ Sums<kCentered> thread_sums(u32 stage, u32 turn, float pivot, bool loose) {
    Sums<kCentered> sums;
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
      if (kIsLoose && s == kSlots - 1 && !this->is(kIsFull)) break;
      float y[kCount], x[kCount], w[kCount];
      read(stage, 2, s, y, x);
      weights(s, w);
      if constexpr (kIsLoose) {
        const float center = this->exists(s) ? pivot : 0.0f;
#pragma unroll
        for (u32 i = 0; i < kCount; ++i) {
          sums.add(y[i] * w[i], kCentered ? x[i] - center : x[i]);
          if constexpr (kCentered) dbias[s][i] += y[i];
        }
      } else {
        add_unit(sums, column(s), y, x, w, pivot);
      }
    }
    if constexpr (kIsLoose) {
      if (loose) this->add_loose(sums, turn, pivot);
    }
    if constexpr (kForeign) {
      if (p.parts > 1 && !p.cluster) add_foreign(sums, turn, pivot);
    }
    return sums;
  }

  __device__ __forceinline__ void add_unit(Sums<kCentered>& sums, u32 column, const float (&y)[kCount],
                                           const float (&x)[kCount], const float (&w)[kCount], float pivot) const {
    const float center = this->begins(column + this->lead) ? pivot : 0.0f;
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) {
      float off = x[i];
      if (kCentered) off -= kAligned || column + i < p.cols ? center : 0.0f;
      sums.add(y[i] * w[i], off);
    }
  }

  // The columns of the row's other blocks, which cannot tell this one their sums.
  __device__ __forceinline__ void add_foreign(Sums<kCentered>& sums, u32 turn, float pivot) const {
    const char *dy_row = dy - 2 * p.dy_step, *h_row = h - 2 * p.h_step;
#pragma unroll 1
    for (int other = 0; other < p.parts; ++other) {
      const int away = (other - static_cast<int>(part())) * p.team_warps * static_cast<int>(kWarp * kSlots);
#pragma unroll 1
      for (int s = 0; s < kSlots && away != 0; ++s) {
        const u32 at_column = (unit(s) + away) * kCount;
        if (at_column >= p.cols || turn >= turns) continue;
        Piece of_y, of_x;
        float y[kCount], x[kCount], w[kCount];
        const u32 left = p.cols - at_column;
        load_first<T>(dy_row + at(s) + away * 16, left, p.dy, this->end_of(p.dy, p.dy_pitch), of_y.word);
        load_first<T>(h_row + at(s) + away * 16, left, p.h, this->end_of(p.h, p.h_pitch), of_x.word);
        of_y.unpack(y);
        of_x.unpack(x);
        this->weights_at(at_column, w);
        add_unit(sums, at_column, y, x, w, pivot);
      }
    }
  }

  // Meanwhile the sums over the next row are exchanged between lanes.
  __device__ __forceinline__ void differentiate(const Slopes& of, u32 stage, u32 turn, Sums<kCentered>& next,
                                                bool loose, float pivot) {
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
      if (kIsLoose && s == kSlots - 1 && !this->is(kIsFull)) break;
      float y[kCount], x[kCount], w[kCount];
      read(stage, kStages, s, y, x);
      weights(s, w);
      this->forget_shapes();
      if constexpr (!kAligned) __syncwarp();  // the next lane has read what this one copies over
      fetch(stage, turn + kStages, s);
      if (!kAligned && s == kSlots - 1) fetch(stage, turn + kStages, kSlots);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const float scaled = y[i] * of.rstd, off = kCentered ? x[i] - of.mean : x[i];
        dweight[s][i] = fmaf(scaled, off, dweight[s][i]);
        if constexpr (kCentered && !kIsLoose) dbias[s][i] += y[i];
        x[i] = fmaf(-off, of.slope, kCentered ? fmaf(scaled, w[i], -of.shift) : scaled * w[i]);
        constexpr u32 kSteps = 5;  // of a sum over 32 lanes
        constexpr u32 kUntil = kIsLoose ? 2 * kCount : kColumns;
        const u32 column = s * kCount + i, step = column * kSteps / kUntil;
        if (column >= kUntil || step == (column + 1) * kSteps / kUntil) continue;
        if constexpr (kIsLoose) {
          next.fold(step);
        } else {
          next.exchange(kWarp / 2 >> step, this->group());
        }
      }
      if (p.dsum != nullptr) {
        if constexpr (!kAligned) fetch_sum(turn, s);
        add[kAligned ? s : 0].unpack(y);
#pragma unroll
        for (int i = 0; i < kCount; ++i) x[i] += y[i];
      }
      if constexpr (kIsLoose) {
        if (s == 1) this->leave(next, pivot);
      }
      Piece out;
      out.pack(x);
      if constexpr (kAligned) {
        if (kIsLoose ? this->exists(s) : has(turn, s)) {
          if (is_part(s)) {
            store_part<T::kSize>(dx + at(s), out.word, part_of(s));
          } else {
            store<16>(dx + at(s), out.word);
          }
        }
      } else {
        const u32 left = has(turn, s) ? p.cols - column(s) : 0;
        store_unaligned<T::kSize>(dx + at(s), out.word, left < kCount ? left : kCount, this->group());
      }
    }
    if constexpr (kIsLoose) {
      if (loose) this->fetch_loose(turn + kStages, dsum + kStages * p.dsum_step);
    }
    dx += p.dx_step;
    dsum += p.dsum_step;
    this->forget(dx);
    this->forget(dsum);
    if (kAligned && (!kIsLoose || any_of_warp(p.dsum != nullptr && turn + 1 < turns))) fetch_sums(turn + 1);
    next_row();
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
