// SPDX-License-Identifier: MIT
// Derivatives of narrow rows without gaps between them that begin on 8 bytes but not all on 16. A warp copies several
// as one run of whole vectors; a row is a few lanes', which have pieces of 8 bytes of it, and the same columns of all
// their rows. No warp waits for another one before the end.
#pragma once

#include "norm_backward_finish.cuh"
#include "norm_backward_moments.cuh"
#include "ptx_async.cuh"
#include "ptx_shared.cuh"

namespace kw {

constexpr u32 kDensePieces = 5;  // a lane: so pieces of a lane after those of another are read without conflicts

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
class DenseBackward {
  using Piece = Unit<T, 8>;
  static constexpr u32 kCount = Piece::kCount, kPieces = kDensePieces, kColumns = kPieces * kCount;
  static constexpr u32 kRun = kWarp * kPieces * 8;  // bytes of a tensor that a warp has at once, at most
  static constexpr u32 kVectors = (kRun / 16 + kWarp - 1) / kWarp;  // a lane
  static constexpr u32 kStages = 3, kStage = 3 * kRun;              // dy, h, dsum

  const KwNormBackwardParams& p;
  const u32 memory, buffer;  // shared memory of the block, and of the warp
  const u32 group, rows;     // lanes a row, rows a warp
  const u32 row, place;      // of those, this lane's row and its place there
  const u32 vectors;         // of a warp's rows
  u32 pieces;                // of this lane
  u32 turns, whole;          // of this warp, and those with `rows` rows
  i64 at;                    // where in a tensor this lane's first vector of the rows to be fetched next is
  u32 mine;                  // where this lane's pieces are in a run
  float weight[kPieces][kCount];
  float dweight[kPieces][kCount] = {}, dbias[kPieces][kCount] = {};

 public:
  __device__ __forceinline__ DenseBackward(const KwNormBackwardParams& params, u32 shared)
      : p(params),
        memory(shared),
        buffer(shared + threadIdx.x / kWarp * kStages * kStage),
        group(params.group),
        rows(kWarp / group & ~1u),
        row(lane() / group),
        place(lane() % group),
        vectors(rows * params.cols / (16 / T::kSize)) {
    turns = p.turns + (first() < p.rest);
    whole = turns > 0 && first() + (turns - 1) * p.step + rows > p.rows ? turns - 1 : turns;
    at = first() * p.dy_pitch + lane() * 16;
    const u32 all = p.cols / kCount, before = place * kPieces;
    pieces = before >= all ? 0 : all - before < kPieces ? all - before : kPieces;
    // Lanes without a row have a place of their own beyond the rows.
    mine = row < rows ? row * p.cols * T::kSize + place * (kPieces * 8) : lane() * (kPieces * 8);
  }

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
  static __device__ __forceinline__ u32 lane() { return threadIdx.x % kWarp; }
  // The warp's first row of all.
  __device__ __forceinline__ i64 first() const {
    return (static_cast<i64>(blockIdx.x) * (blockDim.x / kWarp) + threadIdx.x / kWarp) * rows;
  }
  __device__ __forceinline__ bool ragged() const { return group * kColumns != p.cols; }
  __device__ __forceinline__ u32 last_rows() const { return static_cast<u32>(p.rows - (first() + whole * p.step)); }

  // What no copy fills.
  __device__ __forceinline__ void clear_rest(u32 to) const {
    const u32 zeros[4] = {0, 0, 0, 0};
#pragma unroll 1
    for (u32 vector = vectors + lane(); vector < kRun / 16; vector += kWarp) {
#pragma unroll
      for (u32 tensor = 0; tensor < 3; ++tensor) store_shared<16>(to + tensor * kRun + vector * 16, zeros);
    }
  }

  __device__ __forceinline__ void fetch(u32 to, u32 turn) {
    if (any_of_warp(turn < whole)) {
      to += lane() * 16;
#pragma unroll
      for (u32 i = 0; i < kVectors; ++i) {
        if (lane() + i * kWarp >= vectors) break;
        copy_async(to + i * kWarp * 16, p.dy + at + i * kWarp * 16, 16);
        copy_async(to + i * kWarp * 16 + kRun, p.h + at + i * kWarp * 16, 16);
        if (p.dsum != nullptr) copy_async(to + i * kWarp * 16 + 2 * kRun, p.dsum + at + i * kWarp * 16, 16);
      }
    } else if (turn < turns) {
#pragma unroll 1
      for (u32 tensor = 0; tensor < 3; ++tensor) {
        const char* from = tensor == 0 ? p.dy : tensor == 1 ? p.h : p.dsum;
        if (from != nullptr) fetch_some(to + tensor * kRun, from + at);
      }
    }
    copies_commit();
    at += p.dy_step;
  }

  // Of the last rows of all, whose last vector may be half a one.
  __device__ __forceinline__ void fetch_some(u32 to, const char* from) const {
    const u32 bytes = last_rows() * p.cols * T::kSize;
#pragma unroll 1
    for (u32 i = lane(); i < vectors; i += kWarp, from += kWarp * 16) {
      u32 word[4] = {0, 0, 0, 0};
      if (i * 16 + 16 <= bytes) {
        load<16>(from, word);
      } else if (i * 16 < bytes) {
        load<8>(from, word);
      }
      store_shared<16>(to + i * 16, word);
    }
  }

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

  __device__ __forceinline__ void leave_rows(u32 stage, u32 turn) const {
    const u32 from = stage + kRun + lane() * 16;
    char* to = p.dx + (at - kStages * p.dx_step);
    const u32 bytes = any_of_warp(turn == whole) ? last_rows() * p.cols * T::kSize : vectors * 16;
#pragma unroll
    for (u32 i = 0; i < kVectors; ++i) {
      const u32 begin = (lane() + i * kWarp) * 16;
      u32 word[4];
      if (begin + 16 <= bytes) {
        load_shared<16>(from + i * kWarp * 16, word);
        store<16>(to + i * kWarp * 16, word);
      } else if (begin < bytes) {
        load_shared<8>(from + i * kWarp * 16, word);
        store<8>(to + i * kWarp * 16, word);
      }
    }
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
