// SPDX-License-Identifier: MIT
// The rows of a warp of backward_dense.cuh: which they are, and their way to shared memory and back.
#pragma once

#include "device/element.cuh"
#include "device/ptx/async.cuh"
#include "device/ptx/shared.cuh"
#include "device/reduce.cuh"
#include "ops/norm/backward_params.h"

namespace kw {

constexpr u32 kDensePieces = 5;  // a lane: so pieces of a lane after those of another are read without conflicts

template <class T>
struct DenseRows {
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

  __device__ __forceinline__ DenseRows(const KwNormBackwardParams& params, u32 shared)
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
};

}  // namespace kw
