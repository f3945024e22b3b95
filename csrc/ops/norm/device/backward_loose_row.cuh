// SPDX-License-Identifier: MIT
// What a row has besides whole vectors where threads are wide, and how sums of rows that begin otherwise meet.
#pragma once

#include "ops/norm/device/backward_deposit.cuh"
#include "ops/norm/device/backward_lead.cuh"

namespace kw {

#ifdef KW_HAS_CLUSTER

template <class T, bool kCentered, Lie kLie, u32 kLag, u32 kColumns>
struct BackwardLoose : BackwardLead<T, kCentered, kLie, kLag, kColumns> {
  using Lead = BackwardLead<T, kCentered, kLie, kLag, kColumns>;
  using Stage = BackwardStage<T, kLie, kLag, kColumns>;
  using Lead::scratch;
  using Stage::dy, Stage::first, Stage::h, Stage::kCount, Stage::lane, Stage::p, Stage::shapes, Stage::turns;

  float loose_weight, loose_dweight, loose_dbias;  // of this lane's element

  __device__ __forceinline__ BackwardLoose(const KwNormBackwardParams& params, typename Lead::Scratch& shared,
                                           u32 memory)
      : Lead(params, shared, memory) {}

  // Sums of rows that begin otherwise are stored before those of this time are added to them: their columns may have
  // been other threads'.
  __device__ __forceinline__ void follow_time() const {
    if (this->time == 0) return;
    cluster_arrive_after_all();
    cluster_wait();
  }

  __device__ __forceinline__ LooseLane loose_lane() const {
    const u32 head = -this->lead;
    return {head, this->loose() - head};
  }

  __device__ __forceinline__ void begin_loose() {
    loose_weight = 1.0f;
    loose_dweight = loose_dbias = 0.0f;
    if (this->is(kHasLoose)) shapes |= loose_lane().shapes();
    if ((shapes & kHasElement) == 0 || p.weight_kind == KW_WEIGHT_NONE) return;
    loose_weight = element_of<T>(load_element<T::kSize>(p.weight + this->loose_column(lane()) * T::kSize));
  }

  // Of the row that dy and h are at. A word of it that begins before the tensors or ends after them is not copied.
  __device__ __forceinline__ void fetch_loose(u32 turn, const char* of_dsum) const {
    __syncwarp();  // all have read the row whose place it takes
    if (turn >= turns || (shapes & kCopiesWord) == 0) return;
    const i64 row = this->first_row() + turn * p.step;
    const bool before = row == 0 && (shapes & kBeginsBefore) != 0;
    const bool after = row == p.rows - 1 && (shapes & kEndsAfter) != 0;
    const int vector =
        LooseLane::is_before() ? 0 - static_cast<int>(kLooseBefore / 4) : static_cast<int>(this->end() / kCount);
    const int at = (vector - static_cast<int>(first)) * 16 + static_cast<int>(lane() % kLooseBefore * 4);
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
    if (turn >= turns || (shapes & kHasElement) == 0) return;
    sums.add(loose_element(turn, 0) * loose_weight, loose_element(turn, 1) - (kCentered ? pivot : 0.0f));
  }

  __device__ __forceinline__ void differentiate_loose(const Slopes& of, u32 turn, char* dx) {
    if (turn >= turns || (shapes & kHasElement) == 0) return;
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
    if (!this->is(kHasLoose)) return;
    // Lanes beyond have the sums that fill the last quad. The results themselves have none of these.
    const bool has = (shapes & kHasElement) != 0, several = gridDim.x > p.parts;
    const u32 column = has ? this->loose_column(lane()) : p.cols + (lane() - loose_lane().count());
    if (!has && (!several || column >= this->sums_pitch())) return;
    const typename Stage::Place& here = *this;
    const u64 at = this->first_sum() + column;
    if (p.dweight != nullptr) leave_sum(here, p.dweight, at, loose_dweight);
    if (kCentered && p.dbias != nullptr) leave_sum(here, p.dbias, at, loose_dbias);
  }
};

#endif

}  // namespace kw
