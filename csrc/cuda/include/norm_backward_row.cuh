// SPDX-License-Identifier: MIT
// Derivatives of a norm. What a thread sums over its rows stays in registers. While the sums over a row are brought
// together, the threads are busy with the row before.
#pragma once

#include "norm_backward_deposit.cuh"
#include "norm_backward_merge.cuh"

namespace kw {

// kLag as BackwardPlace has it: two where it takes a cluster to make the sums over a row.
template <class T, bool kCentered, Lie kLie, u32 kLag, u32 kColumns>
class NormBackward : public BackwardMerge<T, kCentered, kLie, kLag, kColumns> {
  using Merge = BackwardMerge<T, kCentered, kLie, kLag, kColumns>;
  using Stage = BackwardStage<T, kLie, kLag, kColumns>;
  using Merge::begin_merge, Merge::done, Merge::end_merge, Merge::scratch;
  using Stage::at, Stage::buffer, Stage::column, Stage::dy, Stage::end_turn, Stage::fetch, Stage::first;
  using Stage::h, Stage::has, Stage::kCopies, Stage::kCount, Stage::kNever, Stage::kSlots;
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

  const char* dsum;  // rows that are done: kLag before the first
  char* dx;
  float dweight[kSlots][kCount], dbias[kSlots][kCount];
  Piece add[kAligned ? kSlots : 1];                // of dsum, of the row to come
  float loose_weight, loose_dweight, loose_dbias;  // of this lane's element, if kIsLoose

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
    const i64 before = this->first_row() - kLag * p.step;
    const int from = first * 16 - this->lead * T::kSize;
    dsum = p.dsum + before * p.dsum_pitch + from;
    dx = p.dx + before * p.dx_pitch + from;
  }

  __device__ __forceinline__ void add_rows() {
    clear();
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
      if constexpr (kIsLoose) {
        if (this->is_loose()) fetch_loose(stage, dsum + (stage + 1) * p.dsum_step);
      }
      next_row();
    }
    this->keep_weights();
    if constexpr (kIsLoose) begin_loose();
    do_rows();
    copies_wait<0>();
    if (p.dweight == nullptr && p.dbias == nullptr) return;
    __syncwarp();  // all have read the last row
    constexpr u32 kThreadQuads = kColumns / 4;
    const typename Stage::Place& here = *this;
    keep_quads(here, 0, dweight);
    if constexpr (kCentered) keep_quads(here, kThreadQuads, dbias);
    if constexpr (kIsLoose) {
      deposit_columns(here, kCentered ? 2 * kThreadQuads : kThreadQuads);
      leave_loose();
    } else {
      deposit(here, kCentered ? 2 * kThreadQuads : kThreadQuads);
    }
  }

  __device__ __forceinline__ LooseLane loose_lane() const {
    const u32 head = -this->lead;
    return {head, this->loose() - head};
  }

  __device__ __forceinline__ void begin_loose() {
    loose_weight = 1.0f;
    loose_dweight = loose_dbias = 0.0f;
    if (!this->is_loose() || !loose_lane().has() || p.weight_kind == KW_WEIGHT_NONE) return;
    loose_weight = element_of<T>(load_element<T::kSize>(p.weight + this->loose_column(lane()) * T::kSize));
  }

  // Of the row that dy and h are at. A word of it that begins before the tensors or ends after them is not copied.
  __device__ __forceinline__ void fetch_loose(u32 turn, const char* of_dsum) const {
    __syncwarp();  // all have read the row whose place it takes
    const LooseLane of = loose_lane();
    if (turn >= turns || !of.copies()) return;
    const i64 row = this->first_row() + turn * p.step;
    const bool before = row == 0 && of.begins_before(), after = row == p.rows - 1 && of.ends_after();
    const int vector = lane() < 4 ? -1 : static_cast<int>(this->end() / kCount);
    const int at = (vector - static_cast<int>(first)) * 16 + static_cast<int>(lane() % 4 * 4);
#pragma unroll
    for (u32 tensor = 0; tensor < 3; ++tensor) {
      if (tensor == 2 && p.dsum == nullptr) break;
      const char* from = (tensor == 0 ? dy : tensor == 1 ? h : of_dsum) + at;
      u32* to = &scratch.loose.word[turn % kLooseStages][tensor][lane()];
      if (before || after) {
        *to = before ? load_element<T::kSize>(from + T::kSize) << 16 : load_element<T::kSize>(from);
      } else {
        copy_word_async(shared_address(to), from);
      }
    }
  }

  __device__ __forceinline__ float loose_element(u32 turn, u32 tensor) const {
    const u32 element = loose_lane().element();
    return element_of<T>(scratch.loose.word[turn % kLooseStages][tensor][element / 2] >> element % 2 * 16);
  }

  __device__ __forceinline__ void add_loose(Sums<kCentered>& sums, u32 turn, float pivot) const {
    if (turn >= turns || !loose_lane().has()) return;
    sums.add(loose_element(turn, 0) * loose_weight, loose_element(turn, 1) - (kCentered ? pivot : 0.0f));
  }

  __device__ __forceinline__ void differentiate_loose(const Slopes& of, u32 turn) {
    if (turn >= turns || !loose_lane().has()) return;
    const float y = loose_element(turn, 0), x = loose_element(turn, 1);
    const float scaled = y * of.rstd, off = kCentered ? x - of.mean : x;
    loose_dweight = fmaf(scaled, off, loose_dweight);
    if constexpr (kCentered) loose_dbias += y;
    float result = fmaf(-off, of.slope, kCentered ? fmaf(scaled, loose_weight, -of.shift) : scaled * loose_weight);
    if (p.dsum != nullptr) result += loose_element(turn, 2);
    Unit<T, T::kSize> out;
    out.pack(&result);
    const int at = static_cast<int>(this->loose_column(lane())) - static_cast<int>(first * kCount - this->lead);
    store<T::kSize>(dx + at * T::kSize, out.word);
  }

  __device__ __forceinline__ void leave_loose() const {
    if (!this->is_loose() || !loose_lane().has()) return;
    const u64 at = static_cast<u64>(this->sums_row()) * p.cols + this->loose_column(lane());
    if (p.dweight != nullptr) store_sum(p.dweight, at, loose_dweight, p.sums_kind);
    if (kCentered && p.dbias != nullptr) store_sum(p.dbias, at, loose_dbias, p.sums_kind);
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
    if (p.dsum == nullptr || !has(turn, slot)) return;
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

  __device__ __forceinline__ void do_rows() {
    u32 stage = buffer + 2 * stage_bytes(), stage_ahead = buffer;
    RowMoments<kCentered> sums{};
    for (u32 ahead = 0; any_of_warp(ahead <= turns + (kLag - 1)); ++ahead) {
      // The row kLag before `ahead` is finished in this turn; before the first there is none, and all of it is zeros.
      const u32 turn = ahead - kLag;
      this->forget_shapes();
      const bool loose = kIsLoose && this->is_loose();
      const bool summed = kLag == 1 ? ahead > 0 : any_of_warp(ahead - 1 < turns);
      if (summed) begin_merge(sums, ahead - 1);
      copies_wait<1>();
      if (kEnds && ahead == end_turn) this->read_end(stage_ahead);
      if constexpr (kCentered || !kAligned || kIsLoose) __syncwarp();  // something of what other lanes copied is read
      const float pivot = kCentered ? this->pivot_of(stage_ahead) : 0.0f;
      if constexpr (kEdges) {
        if constexpr (kCentered) __syncwarp();  // all have the pivot
        this->fill_around_row(stage_ahead, pivot);
      }
      Sums<kCentered> next = thread_sums(stage_ahead, ahead, pivot, loose);
      if (kLag == 1 ? summed : any_of_warp(turn < turns)) end_merge(sums, turn);
      const Slopes slopes = slopes_of(sums, p, turn < turns, [&] { return this->first_row() + turn * p.step; });
      if constexpr (kIsLoose) {
        if (loose) differentiate_loose(slopes, turn);
      }
      differentiate(slopes, stage, turn, next, loose);
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

  __device__ __forceinline__ u32 after(u32 stage) const {
    stage += stage_bytes();
    return stage == buffer + kStages * stage_bytes() ? buffer : stage;
  }

  __device__ __forceinline__ Sums<kCentered> thread_sums(u32 stage, u32 turn, float pivot, bool loose) const {
    Sums<kCentered> sums;
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
      if (kIsLoose && s == kSlots - 1 && !any_of_warp(this->lines == kSlots)) break;
      float y[kCount], x[kCount], w[kCount];
      read(stage, 2, s, y, x);
      weights(s, w);
      add_unit(sums, column(s), y, x, w, pivot);
    }
    if constexpr (kIsLoose) {
      if (loose) add_loose(sums, turn, pivot);
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
                                                bool loose) {
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
      if (kIsLoose && s == kSlots - 1 && !any_of_warp(this->lines == kSlots)) break;
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
        if constexpr (kCentered) dbias[s][i] += y[i];
        x[i] = fmaf(-off, of.slope, kCentered ? fmaf(scaled, w[i], -of.shift) : scaled * w[i]);
        constexpr u32 kSteps = 5;  // of a sum over 32 lanes
        constexpr u32 kUntil = kColumns - (kIsLoose ? kCount : 0);
        const u32 column = s * kCount + i, step = column * kSteps / kUntil;
        if (column < kUntil && step != (column + 1) * kSteps / kUntil) next.exchange(kWarp / 2 >> step, this->group());
      }
      if (p.dsum != nullptr) {
        if constexpr (!kAligned) fetch_sum(turn, s);
        add[kAligned ? s : 0].unpack(y);
#pragma unroll
        for (int i = 0; i < kCount; ++i) x[i] += y[i];
      }
      Piece out;
      out.pack(x);
      if constexpr (kAligned) {
        if (has(turn, s)) {
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
      if (loose) fetch_loose(turn + kStages, dsum + kStages * p.dsum_step);
    }
    dx += p.dx_step;
    dsum += p.dsum_step;
    this->forget(dx);
    this->forget(dsum);
#pragma unroll
    for (int s = 0; kAligned && s < kSlots; ++s) fetch_sum(turn + 1, s);
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
