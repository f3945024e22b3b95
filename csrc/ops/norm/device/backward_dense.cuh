// SPDX-License-Identifier: MIT
// Derivatives of narrow rows without gaps between them that begin on 8 bytes but not all on 16. A warp copies several
// as one run of whole vectors; a row is a few lanes', which have pieces of 8 bytes of it, and the same columns of all
// their rows. No warp waits for another one before the end.
#pragma once

#include "ops/norm/device/backward_dense_rows.cuh"
#include "ops/norm/device/backward_finish.cuh"
#include "ops/norm/device/backward_moments.cuh"

namespace kw {

__device__ __forceinline__ void add_from(Sums<false>& to, const Sums<false>& of, u32 lane) {
  to.squares += shuffle_from(of.squares, lane);
  to.products += shuffle_from(of.products, lane);
}

__device__ __forceinline__ void add_from(Sums<true>& to, const Sums<true>& of, u32 lane) {
  to.squares += shuffle_from(of.squares, lane);
  to.products += shuffle_from(of.products, lane);
  to.slopes += shuffle_from(of.slopes, lane);
  to.offs += shuffle_from(of.offs, lane);
}

template <class T, bool kCentered>
class DenseBackward : DenseRows<T> {
  using Rows = DenseRows<T>;
  using Rows::buffer, Rows::clear_rest, Rows::fetch, Rows::first, Rows::group, Rows::kColumns, Rows::kCount,
      Rows::kPieces;
  using Rows::kRun, Rows::kStage, Rows::kStages, Rows::kVectors, Rows::lane, Rows::last_rows, Rows::leave_rows;
  using Rows::memory, Rows::mine, Rows::p, Rows::pieces, Rows::place, Rows::ragged, Rows::row, Rows::rows, Rows::turns;
  using Rows::whole;
  using typename Rows::Piece;

  float weight[kPieces][kCount];
  float dweight[kPieces][kCount] = {}, dbias[kPieces][kCount] = {};

 public:
  __device__ __forceinline__ DenseBackward(const KwNormBackwardParams& params, u32 shared) : Rows(params, shared) {}

  __device__ __forceinline__ void run() {
    allow_next_kernel();
    wait_for_previous_kernel();
#pragma unroll 1
    for (u32 turn = 0; turn < kStages; ++turn) {
      if (turn == kStages - 1) bring_weights(buffer + turn * kStage);
      clear_rest(buffer + turn * kStage);
      fetch(buffer + turn * kStage, turn);
    }
    u32 stage = buffer;
#pragma unroll 1
    for (u32 turn = 0; any_of_warp(turn < turns); ++turn) {
      copies_wait<kStages - 1>();
      __syncwarp();
      do_rows(stage, turn);
      __syncwarp();
      leave_rows(stage, turn);
      __syncwarp();
      fetch(stage, turn + kStages);
      stage += kStage;
      if (stage == buffer + kStages * kStage) stage = buffer;
    }
    copies_wait<0>();
    if (p.dweight != nullptr || p.dbias != nullptr) leave_sums();
  }

 private:
  // By way of the memory of a stage that nothing was asked for yet.
  __device__ __forceinline__ void bring_weights(u32 by) {
#pragma unroll 1
    for (u32 column = lane(); column < kVectors * kWarp * 4; column += kWarp) {
      Unit<T, T::kSize> one;
      u32 word[1] = {bits_of_float(1.0f)};
      if (p.weight_kind == KW_WEIGHT_FLOAT32 && column < p.cols) {
        load<4>(p.weight + column * 4, word);
      } else if (p.weight_kind != KW_WEIGHT_NONE && column < p.cols) {
        float value;
        load<T::kSize>(p.weight + column * T::kSize, one.word);
        one.unpack(&value);
        word[0] = bits_of_float(value);
      }
      store_shared<4>(by + column * 4, word);
    }
    __syncwarp();
#pragma unroll
    for (u32 s = 0; s < kPieces; ++s) {
      Unit<Float32, 16> quad;
      load_shared<16>(by + (place * kPieces + s) * 16, quad.word);
      quad.unpack(weight[s]);
    }
    __syncwarp();
  }

  // The mean of the row's first elements, rounded.
  __device__ __forceinline__ u32 pivot_of(u32 run) const {
    Piece piece;
    float x[kCount];
    load_shared<8>(run + mine - place * (kPieces * 8), piece.word);
    piece.unpack(x);
    const float mean = ((x[0] + x[1]) + (x[2] + x[3])) * 0.25f;
    return T::pack(mean, mean);
  }

  // Of all lanes of the row: sums over 1, 2, 4, … lanes from each on, round the group.
  __device__ __forceinline__ void exchange(Sums<kCentered>& sums) const {
    Sums<kCentered> some = sums;
    u32 have = 0;
#pragma unroll
    for (u32 step = 1; step < kWarp / 2; step *= 2) {
      if (group & step) {
        if (have == 0) {
          sums = some;
        } else {
          add_from(sums, some, after(have));
        }
        have += step;
      }
      if (2 * step > group) break;
      add_from(some, some, after(step));
    }
  }

  __device__ __forceinline__ u32 after(u32 step) const { return lane() + step - (place + step >= group ? group : 0); }

  __device__ __forceinline__ void do_rows(u32 stage, u32 turn) {
    Piece y[kPieces], x[kPieces];
    const u32 from = stage + mine;
    const u32 around = kCentered ? pivot_of(stage + kRun) : 0;
#pragma unroll
    for (u32 s = 0; s < kPieces; ++s) {
      load_shared<8>(from + s * 8, y[s].word);
      load_shared<8>(from + kRun + s * 8, x[s].word);
    }
    if (ragged()) {
#pragma unroll
      for (u32 s = 0; s < kPieces; ++s) {
        if (s < pieces) continue;
        y[s].clear();
        x[s].word[0] = x[s].word[1] = around;
      }
    }
    Sums<kCentered> sums;
    const float pivot = T::low(around);
#pragma unroll
    for (u32 s = 0; s < kPieces; ++s) {
      float of_y[kCount], of_x[kCount];
      y[s].unpack(of_y);
      x[s].unpack(of_x);
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) sums.add(of_y[i] * weight[s][i], kCentered ? of_x[i] - pivot : of_x[i]);
    }
    exchange(sums);
    __syncwarp();  // all have read the first elements of their row
    u32 there = rows;
    if (any_of_warp(turn == whole)) there = last_rows();
    const Slopes of =
        slopes_of(sums.moments(pivot, p.inverse_cols), p, row < there, [&] { return first() + turn * p.step + row; });
#pragma unroll
    for (u32 s = 0; s < kPieces; ++s) {
      if constexpr (kCentered) {
        compute_anew(y[s].word);
        compute_anew(x[s].word);
      }
      differentiate(of, s, from + s * 8, y[s], x[s]);
    }
  }

  // The results take the place of h.
  __device__ __forceinline__ void differentiate(const Slopes& of, u32 s, u32 at, const Piece& of_y, const Piece& of_x) {
    float y[kCount], x[kCount];
    of_y.unpack(y);
    of_x.unpack(x);
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) {
      const float scaled = y[i] * of.rstd, off = kCentered ? x[i] - of.mean : x[i];
      dweight[s][i] = fmaf(scaled, off, dweight[s][i]);
      if constexpr (kCentered) dbias[s][i] += y[i];
      x[i] = fmaf(-off, of.slope, kCentered ? fmaf(scaled, weight[s][i], -of.shift) : scaled * weight[s][i]);
    }
    Piece out;
    if (p.dsum != nullptr) {
      load_shared<8>(at + 2 * kRun, out.word);
      out.unpack(y);
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) x[i] += y[i];
    }
    out.pack(x);
    if ((kCentered && !ragged()) || s < pieces) store_shared<8>(at + kRun, out.word);
  }

  // The block's: each lane's first, then over all that have the same column, in the order of their rows.
  __device__ __forceinline__ void leave_sums() {
    const u32 cols = p.cols, runs = blockDim.x / kWarp * rows, biases = memory + runs * cols * 4;
    const u32 to = memory + ((threadIdx.x / kWarp * rows + row) * cols + place * kColumns) * 4;
    __syncthreads();
#pragma unroll
    for (u32 s = 0; s < kPieces; ++s) {
      if (s >= pieces || row >= rows) continue;
      Unit<Float32, 16> quad;
      quad.pack(dweight[s]);
      store_shared<16>(to + s * 16, quad.word);
      quad.pack(dbias[s]);
      if constexpr (kCentered) store_shared<16>(to + (biases - memory) + s * 16, quad.word);
    }
    __syncthreads();
#pragma unroll 1
    for (u32 i = threadIdx.x; i < (kCentered ? 2 * cols : cols); i += blockDim.x) {
      const bool bias = i >= cols;
      const u32 column = bias ? i - cols : i, from = (bias ? biases : memory) + column * 4;
      float total = 0.0f;
#pragma unroll 4
      for (u32 of = 0; of < runs; ++of) {
        u32 word[1];
        load_shared<4>(from + of * cols * 4, word);
        total += float_of_bits(word[0]);
      }
      char* sum = bias ? p.dbias : p.dweight;
      if (sum != nullptr) store_sum(sum, static_cast<u64>(blockIdx.x) * cols + column, total, p.sums_kind);
    }
  }
};

template <class T, bool kCentered>
__device__ __forceinline__ void norm_backward_dense(const KwNormBackwardParams& p) {
  extern __shared__ __align__(128) char norm_backward_dense_memory[];
  DenseBackward<T, kCentered>(p, shared_address(norm_backward_dense_memory)).run();
}

}  // namespace kw
