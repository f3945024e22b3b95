// SPDX-License-Identifier: MIT
// A step of an optimizer on many tensors. A tile is 2048 elements, 256 a warp and 8 a lane: a warp's are one block of
// 8-bit codes, so that nothing is shared between warps. Everything is read once and written where it was read.
#pragma once

#include "device/ptx/root.cuh"
#include "device/ptx/sync.cuh"
#include "ops/optim/device/advance.cuh"
#include "ops/optim/device/codes.cuh"
#include "ops/optim/geometry.h"
#include "ops/optim/params.h"

namespace kw {

constexpr int kRuleMomentum = 2, kRuleRmsprop = 3, kRuleAdagrad = 4;  // as base.h numbers them; the other is Lion

// Eight elements of T, all there and aligned, in units of 16 bytes.
template <class T>
__device__ __forceinline__ void load_eight(const char* from, float (&value)[8]) {
  constexpr int kCount = 16 / T::kSize;
  Unit<T, 16> unit[8 / kCount];
#pragma unroll
  for (int i = 0; i < 8 / kCount; ++i) load<16>(from + i * 16, unit[i].word);
#pragma unroll
  for (int i = 0; i < 8 / kCount; ++i) unit[i].unpack(value + i * kCount);
}

template <class T>
__device__ __forceinline__ void store_eight(char* to, const float (&value)[8]) {
  constexpr int kCount = 16 / T::kSize;
#pragma unroll
  for (int i = 0; i < 8 / kCount; ++i) {
    Unit<T, 16> unit;
    unit.pack(value + i * kCount);
    store<16>(to + i * 16, unit.word);
  }
}

// Element `at` of a tensor of this type (base.h) and the seven after it; what lies past the end is 0. The type is the
// same for all threads: a kernel for each would be three times the code. So are the loops that take single elements.
__device__ __forceinline__ void load_values(const char* from, int dtype, i64 at, const KwOptimizerTensor& t,
                                            float (&value)[8]) {
  from += at * (dtype == 0 ? 4 : 2);
  if (t.aligned && t.count - at >= 8) {
    if (dtype == 0) return load_eight<Float32>(from, value);
    if (dtype == 1) return load_eight<Float16>(from, value);
    return load_eight<BFloat16>(from, value);
  }
#pragma unroll 1
  for (int i = 0; i < 8; ++i) {
    u32 word[1] = {0};
    if (i < t.count - at) dtype == 0 ? load<4>(from + i * 4, word) : load<2>(from + i * 2, word);
    const float one = dtype == 0 ? float_of_bits(word[0]) : dtype == 1 ? Float16::low(word[0]) : BFloat16::low(word[0]);
#pragma unroll
    for (int j = 0; j < 8; ++j) value[j] = i == j ? one : value[j];
  }
}

__device__ __forceinline__ void store_values(char* to, int dtype, i64 at, const KwOptimizerTensor& t,
                                             const float (&value)[8]) {
  to += at * (dtype == 0 ? 4 : 2);
  if (t.aligned && t.count - at >= 8) {
    if (dtype == 0) return store_eight<Float32>(to, value);
    if (dtype == 1) return store_eight<Float16>(to, value);
    return store_eight<BFloat16>(to, value);
  }
#pragma unroll 1
  for (int i = 0; i < 8 && i < t.count - at; ++i) {
    float one = value[0];
#pragma unroll
    for (int j = 1; j < 8; ++j) one = i == j ? value[j] : one;
    const u32 word[1] = {dtype == 0   ? bits_of_float(one)
                         : dtype == 1 ? Float16::pack(one, 0.0f)
                                      : BFloat16::pack(one, 0.0f)};
    dtype == 0 ? store<4>(to + i * 4, word) : store<2>(to + i * 2, word);
  }
}

__device__ __forceinline__ const char* state_of(const KwOptimizerTensor& t, int which) {
  return which == 0 ? t.state1 : which == 1 ? t.state2 : t.state3;
}

__device__ __forceinline__ const char* absmax_of(const KwOptimizerTensor& t, int which) {
  return which == 0 ? t.absmax1 : which == 1 ? t.absmax2 : t.absmax3;
}

// States of 32 bits.
struct WideStates {
  static constexpr bool kCoded = false;

  __device__ __forceinline__ void load(int which, i64 at, const KwOptimizerTensor& t, float (&value)[8]) const {
    load_values(state_of(t, which), 0, at, t, value);
  }

  __device__ __forceinline__ void store(int which, i64 at, const KwOptimizerTensor& t, const float (&value)[8]) const {
    store_values(const_cast<char*>(state_of(t, which)), 0, at, t, value);
  }
};

// States of 8-bit codes: one map for the first and third, another for the second.
struct CodedStates {
  static constexpr bool kCoded = true;

  struct Shared {
    float map[2][256];
    CodeTable table[2];
  };
  Shared& shared;
  bool both[2];  // whether a map has values below 0

  __device__ __forceinline__ CodedStates(const KwOptimizerParams& p, Shared& memory) : shared(memory) {
    both[0] = load_float(p.map1) < 0.0f;
    both[1] = load_float(p.map2) < 0.0f;
#pragma unroll 1
    for (int i = 0; i < 2; ++i) {
      const char* map = i == 0 ? p.map1 : p.map2;
      shared.map[i][threadIdx.x] = load_float(map + threadIdx.x * 4);
      shared.table[i].fill(map, code_shape(i == 0 ? both[0] : both[1]));
    }
    __syncthreads();
  }

  __device__ __forceinline__ void load(int which, i64 at, const KwOptimizerTensor& t, float (&value)[8]) const {
    Unit<Code, 8> codes;
    load_unit(state_of(t, which), at, t.count, t.aligned, codes);
    const float by = at < t.count ? load_float(absmax_of(t, which) + (at >> 8) * 4) : 0.0f;
    const float* map = shared.map[which & 1];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      value[i] = at + i < t.count ? map[codes.word[i / 4] >> (i % 4 * 8) & 255u] * by : 0.0f;
    }
  }

  // All lanes of a warp call it.
  __device__ __forceinline__ void store(int which, i64 at, const KwOptimizerTensor& t, const float (&value)[8]) const {
    u32 most = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) most = at + i < t.count ? larger_size(most, bits_of_float(value[i])) : most;
    const u32 scale[1] = {scale_bits(largest_of_lanes(most, kWarp))};
    const float by = reciprocal_of_normal(float_of_bits(scale[0]));
    if (threadIdx.x % kWarp == 0) kw::store<4>(const_cast<char*>(absmax_of(t, which)) + (at >> 8) * 4, scale);
    float scaled[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) scaled[i] = multiply_flushed(value[i], by);
    Unit<Code, 8> codes;
    shared.table[which & 1].codes(code_shape(which & 1 ? both[1] : both[0]), scaled, codes);
    store_unit(const_cast<char*>(state_of(t, which)), at, t.count, t.aligned, codes);
  }
};

// The first of several takes the last one's place, and the others move up: a loop over them is then one copy of its
// code, and all stay in registers.
template <int kStates>
__device__ __forceinline__ void rotate(float (&state)[kStates][8]) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float first = state[0][i];
#pragma unroll
    for (int s = 0; s + 1 < kStates; ++s) state[s][i] = state[s + 1][i];
    state[kStates - 1][i] = first;
  }
}

// The rules, on a lane's elements.

__device__ __forceinline__ void take_gradient(const KwOptimizerParams& p, const KwOptimizerMoves& n, float (&g)[8],
                                              float (&w)[8]) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    g[i] = p.grad_scale * g[i];
    if (p.grad_decay != 0.0f) g[i] = fmaf(p.grad_decay, w[i], g[i]);
    w[i] *= n.decay;
  }
}

__device__ __forceinline__ void adam(const KwOptimizerParams& p, const KwOptimizerMoves& n, const float (&g)[8],
                                     float (&w)[8], float (&m)[8], float (&v)[8]) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    m[i] = fmaf(p.beta1, m[i], p.rest1 * g[i]);
    v[i] = fmaf(p.beta2, v[i], p.rest2 * g[i] * g[i]);
    const float under = fmaf(sqrt_approx(v[i]), n.correction2, p.eps);
    w[i] = fmaf(-n.lr * n.correction1, m[i] * reciprocal_approx(under), w[i]);
  }
}

__device__ __forceinline__ void ademamix(const KwOptimizerParams& p, const KwOptimizerMoves& n, const float (&g)[8],
                                         float (&w)[8], float (&m)[8], float (&v)[8], float (&slow)[8]) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    m[i] = fmaf(p.beta1, m[i], p.rest1 * g[i]);
    slow[i] = fmaf(n.beta3, slow[i], n.rest3 * g[i]);
    v[i] = fmaf(p.beta2, v[i], p.rest2 * g[i] * g[i]);
    const float under = fmaf(sqrt_approx(v[i]), n.correction2, p.eps);
    w[i] = fmaf(-n.lr, fmaf(n.alpha, slow[i], n.correction1 * m[i]) * reciprocal_approx(under), w[i]);
  }
}

// Of one state: which rule it is is the same for all threads, and asked once for a lane's elements.
__device__ __forceinline__ void of_one_state(const KwOptimizerParams& p, const KwOptimizerMoves& n, const float (&g)[8],
                                             float (&w)[8], float (&s)[8]) {
  if (p.rule == kRuleMomentum) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      s[i] = n.first ? g[i] : fmaf(p.beta1, s[i], g[i]);
      w[i] = fmaf(-n.lr, s[i], w[i]);
    }
  } else if (p.rule == kRuleRmsprop || p.rule == kRuleAdagrad) {
    const float keep = p.rule == kRuleAdagrad ? 1.0f : p.beta1, rest = p.rule == kRuleAdagrad ? 1.0f : p.rest1;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      s[i] = fmaf(keep, s[i], rest * g[i] * g[i]);
      w[i] = fmaf(-n.lr, g[i] * reciprocal_approx(sqrt_approx(s[i]) + p.eps), w[i]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float toward = fmaf(p.beta1, s[i], p.rest1 * g[i]);
      w[i] -= toward > 0.0f ? n.lr : toward < 0.0f ? -n.lr : n.lr * toward;  // of 0 and NaN themselves
      s[i] = fmaf(p.beta2, s[i], p.rest2 * g[i]);
    }
  }
}

__device__ __forceinline__ KwOptimizerMoves moves_of(const KwOptimizerParams& p) {
  KwOptimizerMoves moves = p.moves;
  if (p.moving != nullptr) moves = moves_in(p.moving);
  return moves;
}

// Whether they are read again for each tile, so that they take no registers while codes are made: three coded states
// would otherwise leave room for two blocks of a multiprocessor instead of three.
template <class States, int kStates>
constexpr bool kMovesLate = States::kCoded && kStates == 3;

template <class States, int kStates>
__device__ __forceinline__ void optimizer_part(const KwOptimizerParams& p, const KwOptimizerMoves& early,
                                               const KwOptimizerTensor& t, const States& states, i64 at) {
  float g[8] = {}, w[8] = {}, state[kStates][8] = {};
  load_values(t.grad, p.dtype, at, t, g);
  load_values(t.param, p.dtype, at, t, w);
#pragma unroll
  for (int s = 0; s < kStates; ++s) states.load(s, at, t, state[s]);
  const KwOptimizerMoves moves = kMovesLate<States, kStates> ? moves_of(p) : early;
  take_gradient(p, moves, g, w);
  if constexpr (kStates == 1) of_one_state(p, moves, g, w, state[0]);
  if constexpr (kStates == 2) adam(p, moves, g, w, state[0], state[1]);
  if constexpr (kStates == 3) ademamix(p, moves, g, w, state[0], state[1], state[2]);
  store_values(t.param, p.dtype, at, t, w);
#pragma unroll 1
  for (int s = 0; s < kStates; ++s) {
    states.store(s, at, t, state[0]);
    rotate(state);
  }
}

template <class States, int kStates>
__device__ __forceinline__ void optimizer_run(const KwOptimizerParams& p, const States& states) {
  const KwOptimizerMoves early = kMovesLate<States, kStates> ? p.moves : moves_of(p);
  u32 number = 0;
#pragma unroll 1
  for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
    while (tile >= p.tensor[number].end) ++number;
    const KwOptimizerTensor& t = p.tensor[number];
    const u32 first = number == 0 ? 0 : p.tensor[number - 1].end;
    const i64 of_warp = static_cast<i64>(tile - first) * kOptimizerTile + threadIdx.x / kWarp * (kWarp * 8);
    if (of_warp >= t.count) continue;  // all lanes of a warp
    optimizer_part<States, kStates>(p, early, t, states, of_warp + threadIdx.x % kWarp * 8);
  }
}

}  // namespace kw
