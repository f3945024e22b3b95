// SPDX-License-Identifier: MIT
// The numbers of the next step, made where the kernels read them: what a captured graph replays is then the next step.
#pragma once

#include "device/ptx/double.cuh"
#include "device/ptx/memory.cuh"
#include "ops/optim/numbers.h"

namespace kw {

constexpr i64 kMoves = sizeof(i64);  // where the numbers lie, behind the count

__device__ __forceinline__ void replace(double& value, const char* from) {
  u32 word[2];
  if (from == nullptr) return;
  load<8>(from, word);
  value = double_of_words(word[0], word[1]);
}

// One thread.
__device__ __forceinline__ void optimizer_advance(const KwOptimizerAdvanceParams& p) {
  u32 count[2];
  load<8>(p.moving, count);
  const u64 taken = static_cast<u64>(count[1]) << 32 | count[0];
  KwOptimizerStep step = p.step;
  step.step = optimizer_step_number(step.step, static_cast<i64>(taken));
  replace(step.lr, p.lr);
  replace(step.alpha, p.alpha);
  replace(step.beta3, p.beta3);
  const KwOptimizerMoves moves = optimizer_moves(step);
  count[0] = static_cast<u32>(taken + 1);
  count[1] = static_cast<u32>((taken + 1) >> 32);
  store<8>(p.moving, count);
#pragma unroll
  for (i64 i = 0; i < static_cast<i64>(sizeof moves / 4); ++i) {
    const u32 word[1] = {reinterpret_cast<const u32*>(&moves)[i]};
    store<4>(p.moving + kMoves + i * 4, word);
  }
}

// The numbers that it left there.
__device__ __forceinline__ KwOptimizerMoves moves_in(const char* moving) {
  KwOptimizerMoves moves;
#pragma unroll
  for (i64 i = 0; i < static_cast<i64>(sizeof moves / 4); ++i) {
    u32 word[1];
    load<4>(moving + kMoves + i * 4, word);
    reinterpret_cast<u32*>(&moves)[i] = word[0];
  }
  return moves;
}

}  // namespace kw
