// SPDX-License-Identifier: MIT
// Derivatives of a norm: a persistent loop over rows. What a thread sums over its rows stays in registers. While the
// sums over a row are brought together, the threads are busy with the row before.
#pragma once

#include "ops/norm/device/backward_reduce.cuh"
#include "ops/norm/device/partials.cuh"

namespace kw {

// kLag as BackwardThread has it: two where it takes a cluster to make the sums over a row.
template <class T, bool kCentered, bool kOn16, u32 kLag, u32 kColumns>
struct BackwardRow : BackwardMerge<T, kCentered, kOn16, kLag, kColumns> {
  using Merge = BackwardMerge<T, kCentered, kOn16, kLag, kColumns>;
  using Pipeline = BackwardPipeline<T, kOn16, kLag, kColumns>;
  using Pipeline::at, Pipeline::column, Pipeline::dy, Pipeline::exists, Pipeline::fetch, Pipeline::first;
  using Pipeline::group, Pipeline::h, Pipeline::has, Pipeline::kCount, Pipeline::kSlots, Pipeline::kStages;
  using Pipeline::next_row, Pipeline::p, Pipeline::part, Pipeline::read, Pipeline::tensor_bytes;
  using Pipeline::turns, Pipeline::weights;
  using typename Pipeline::Piece;
  // Whether blocks that are no cluster may share a row.
#ifdef KW_HAS_CLUSTER
  static constexpr bool kForeign = !kOn16;
#else
  static constexpr bool kForeign = true;
#endif

  const char* dsum;  // rows that are done: at first kLag before the first one
  char* dx;
  float dweight[kSlots][kCount], dbias[kSlots][kCount];
  Piece add[kOn16 ? kSlots : 1];  // of dsum, of the row to come

  __device__ __forceinline__ BackwardRow(const KwNormBackwardParams& params, typename Merge::Scratch& shared,
                                         u32 memory)
      : Merge(params, shared, memory) {
    const i64 before = this->first_row() - static_cast<i64>(kLag) * p.step;
    dsum = p.dsum + before * p.dsum_pitch + this->first_byte();
    dx = p.dx + before * p.dx_pitch + (kOn16 ? first * 16 : first * T::kSize);
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
      if constexpr (kOn16) add[s].clear();
#pragma unroll
      for (int i = 0; i < kCount; ++i) dweight[s][i] = dbias[s][i] = 0.0f;
    }
  }

  __device__ __forceinline__ u32 dsum_stage() const { return this->buffer - this->lane() * 16 + this->dsum_from(); }

  // Units that no lane of a warp has are not done.
  __device__ __forceinline__ bool is_beyond(int slot) const {
    return !kOn16 && slot > 0 && slot * kCount * group() >= this->left();
  }

  __device__ __forceinline__ void fetch_sums(u32 turn) {
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
      if (p.dsum != nullptr && has(turn, s)) load<16>(dsum + at(s), add[s].word);
    }
  }

  __device__ __forceinline__ Sums<kCentered> thread_sums(u32 stage, u32 turn, float pivot) {
    Sums<kCentered> sums;
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
      if (is_beyond(s)) break;
      float y[kCount], x[kCount], w[kCount];
      read(stage, 2, s, turn < turns, pivot, y, x);
      weights(s, w);
      const float center = !kOn16 || exists(s) ? pivot : 0.0f;
#pragma unroll
      for (int i = 0; i < kCount; ++i) sums.add(y[i] * w[i], kCentered ? x[i] - center : x[i]);
    }
    if constexpr (kForeign) {
      if (p.parts > 1 && !p.cluster) add_foreign(sums, turn, pivot);
    }
    return sums;
  }

  // The columns of the row's other blocks, which cannot tell this one their sums.
  __device__ __forceinline__ void add_foreign(Sums<kCentered>& sums, u32 turn, float pivot) const {
    constexpr u32 kColumnsOfWarp = Pipeline::kWarpColumns;
    const u32 warp_columns = p.team_warps * kColumnsOfWarp;
    const char* dy_row = dy - 2 * p.dy_step - this->first_byte();
    const char* h_row = h - 2 * p.h_step - this->first_byte();
#pragma unroll 1
    for (u32 other = 0; other < static_cast<u32>(p.parts); ++other) {
      if (other == part() || turn >= turns) continue;
      const u32 from = other * warp_columns + this->warp() * kColumnsOfWarp + this->lane();
#pragma unroll 4
      for (u32 i = 0; i < kColumns; ++i) {
        const u32 index = from + i * kWarp;
        if (index >= p.cols) continue;
        Unit<T, T::kSize> of_y, of_x;
        float y, x;
        load<T::kSize>(dy_row + index * T::kSize, of_y.word);
        load<T::kSize>(h_row + index * T::kSize, of_x.word);
        of_y.unpack(&y);
        of_x.unpack(&x);
        sums.add(y * this->weight_at(index), kCentered ? x - pivot : x);
      }
    }
  }

  // Meanwhile the sums over the next row are exchanged between lanes.
  __device__ __forceinline__ void differentiate(const Slopes& of, u32 stage, u32 turn, Sums<kCentered>& next) {
    constexpr u32 kSteps = 5;  // of a sum over 32 lanes
    if constexpr (!kOn16) {
#pragma unroll
      for (u32 step = 0; step < kSteps; ++step) next.exchange(kWarp / 2 >> step, group());
    }
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
      if (is_beyond(s)) break;
      float y[kCount], x[kCount], w[kCount];
      read(stage, kStages, s, turn < turns, 0.0f, y, x);
      weights(s, w);
      if constexpr (kOn16) fetch(stage, turn + kStages, s);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const float scaled = y[i] * of.rstd, off = kCentered ? x[i] - of.mean : x[i];
        dweight[s][i] = fmaf(scaled, off, dweight[s][i]);
        if constexpr (kCentered) dbias[s][i] += y[i];
        x[i] = fmaf(-off, of.slope, kCentered ? fmaf(scaled, w[i], -of.shift) : scaled * w[i]);
        const u32 at_column = s * kCount + i, step = at_column * kSteps / kColumns;
        if (!kOn16 || step == (at_column + 1) * kSteps / kColumns) continue;
        next.exchange(kWarp / 2 >> step, group());
      }
      if (p.dsum != nullptr) {
        if constexpr (kOn16) {
          add[s].unpack(y);
        } else {
          this->read_elements(dsum_stage(), dsum, s, turn < turns, 0.0f, y);
        }
#pragma unroll
        for (int i = 0; i < kCount; ++i) x[i] += y[i];
      }
      store(turn, s, x);
    }
    dx += p.dx_step;
    dsum += p.dsum_step;
    this->forget(dx);
    this->forget(dsum);
    if constexpr (kOn16) {
      fetch_sums(turn + 1);
    } else {
      __syncwarp();  // all have read what the next copies go over
      if (p.dsum != nullptr && turn + 1 < turns) this->fetch_vectors(dsum_stage(), dsum, 2);
      copies_commit();  // it is wanted before the row
      this->fetch_row(stage, turn + kStages);
    }
    next_row();
  }

  __device__ __forceinline__ void store(u32 turn, int slot, const float (&value)[kCount]) const {
    if constexpr (kOn16) {
      if (has(turn, slot)) store_unit<T, 16>(dx + at(slot), value);
    } else {
      const u32 end = turn < turns ? p.cols : 0, step = group() * T::kSize;
      char* to = dx + slot * kCount * step;
#pragma unroll
      for (int i = 0; i < kCount; ++i, to += step) {
        const float one[1] = {value[i]};
        if (column(slot * kCount + i) < end) store_unit<T, T::kSize>(to, one);
      }
    }
  }
};

template <class T, bool kCentered, bool kOn16, u32 kLag, u32 kColumns>
class NormBackward : public BackwardRow<T, kCentered, kOn16, kLag, kColumns> {
  using Row = BackwardRow<T, kCentered, kOn16, kLag, kColumns>;
  using Pipeline = BackwardPipeline<T, kOn16, kLag, kColumns>;
  using Pipeline::buffer, Pipeline::fetch_row, Pipeline::kStages, Pipeline::lane;
  using Pipeline::next_row, Pipeline::p, Pipeline::stage_bytes, Pipeline::team, Pipeline::turns, Pipeline::warp;
  using Row::clear, Row::dbias, Row::differentiate, Row::dweight, Row::scratch, Row::thread_sums;

 public:
  using Row::Row;
  using typename Row::Scratch;

  __device__ __forceinline__ void run() {
    if constexpr (kCentered) this->count_columns(scratch);
    this->begin_cluster();
    allow_next_kernel();
    wait_for_previous_kernel();
    clear();
    begin_rows_ahead();
    do_rows();
    copies_wait<0>();
    if (p.dweight == nullptr && p.dbias == nullptr) return;
    __syncwarp();  // all have read the last row
    constexpr u32 kThreadQuads = kColumns / 4;
    const BackwardThread<T, kOn16, kLag, kColumns>& here = *this;
    keep_quads(here, 0, dweight);
    if constexpr (kCentered) keep_quads(here, kThreadQuads, dbias);
    leave_partial_sums<kOn16>(here, kCentered ? 2 * kThreadQuads : kThreadQuads);
  }

 private:
  // Where the stages begin.
  __device__ __forceinline__ u32 stages() const { return kOn16 ? buffer : buffer - lane() * 16; }

  __device__ __forceinline__ void begin_rows_ahead() {
#pragma unroll
    for (u32 stage = 2; stage < kStages && kOn16; ++stage) fetch_row(stages() + stage * stage_bytes(), kNever);
#pragma unroll(kOn16 ? 2 : 1)
    for (u32 stage = 0; stage < 2; ++stage) {
      fetch_row(stages() + stage * stage_bytes(), stage);
      next_row();
    }
    this->keep_weights();
  }

  __device__ __forceinline__ void do_rows() {
    u32 stage = stages() + 2 * stage_bytes(), stage_ahead = stages();
    RowMoments<kCentered> sums{};
    for (u32 ahead = 0; any_of_warp(ahead <= turns + (kLag - 1)); ++ahead) {
      // The row kLag before `ahead` is finished in this turn; before the first there is none, and all of it is zeros.
      const u32 turn = ahead - kLag;
      const bool summed = kLag == 1 ? ahead > 0 : any_of_warp(ahead - 1 < turns);
      if (summed) this->begin_merge(sums, ahead - 1);
      copies_wait<1>();
      if constexpr (kCentered || !kOn16) __syncwarp();  // something of what other lanes copied is read
      const float pivot = kCentered ? this->pivot_of(stage_ahead, ahead < turns) : 0.0f;
      Sums<kCentered> next = thread_sums(stage_ahead, ahead, pivot);
      if (kLag == 1 ? summed : any_of_warp(turn < turns)) this->end_merge(sums, turn);
      const Slopes slopes = slopes_of(sums, p, turn < turns, [&] { return this->first_row() + turn * p.step; });

      differentiate(slopes, stage, turn, next);
      sums = next.moments(pivot, kCentered ? scratch.warp_inverse[warp()] : 0.0f);
      if (p.team_warps > 1) {
        if (lane() == 0) scratch.warp[ahead % 2][threadIdx.x / kWarp] = sums;
        barrier_of(team + 1, p.team_warps * kWarp);
      } else if constexpr (kCentered || !kOn16) {
        __syncwarp();  // all have read what its lane copies over next
      }
      stage = kLag == 1 ? stage_ahead : after(stage);
      stage_ahead = after(stage_ahead);
    }
  }

  __device__ __forceinline__ u32 after(u32 stage) const {
    stage += stage_bytes();
    return stage == stages() + kStages * stage_bytes() ? stages() : stage;
  }
};

template <class T, bool kCentered, bool kOn16, u32 kLag = 1, u32 kColumns = kThreadColumns>
__device__ __forceinline__ void norm_backward(const KwNormBackwardParams& p) {
  extern __shared__ __align__(128) char norm_backward_memory[];  // a copy by a warp fills whole lines
  using Backward = NormBackward<T, kCentered, kOn16, kLag, kColumns>;
  __shared__ typename Backward::Scratch scratch;
  Backward(p, scratch, shared_address(norm_backward_memory)).run();
}

}  // namespace kw
