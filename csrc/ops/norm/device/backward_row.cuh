// SPDX-License-Identifier: MIT
// What a thread of the derivatives does with one row: its sums over the row, and, of a row before, the derivatives.
#pragma once

#include "ops/norm/device/backward_deposit.cuh"
#include "ops/norm/device/backward_loose_row.cuh"
#include "ops/norm/device/backward_merge.cuh"

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
struct BackwardRow : BackwardMeeting<T, kCentered, kLie, kLag, kColumns>::Type {
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

  __device__ __forceinline__ BackwardRow(const KwNormBackwardParams& params, typename Merge::Scratch& shared,
                                         u32 memory)
      : Merge(params, shared, memory) {
    if constexpr (!kInPhase) begin_results();
  }

  __device__ __forceinline__ void begin_results() {
    const i64 before = this->first_row() - (kIsLoose ? 0 : kLag) * p.step;
    const int from = first * 16 - this->lead * T::kSize;
    dsum = p.dsum + before * p.dsum_pitch + from;
    dx = p.dx + before * p.dx_pitch + from;
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

}  // namespace kw
