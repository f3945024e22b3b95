// SPDX-License-Identifier: MIT
// A step of an optimizer on the CPU, 256 elements at a time: they are read, changed and written while the caches hold
// them. The rules are loops over floats, which compilers make vectors of.
#pragma once

#include "cpu/pool.h"
#include "ops/optim/cpu/codes.h"
#include "ops/optim/host/blockwise.h"
#include "ops/optim/host/optimizer.h"

namespace kw::cpu {

struct OptimizerJob {
  const OptimizerStep& step;
  const KwOptimizerParams& numbers;
  const CodeTable* tables[2];  // of 8-bit states
};

// The blocks of all tensors, counted through.
inline int64_t optimizer_blocks(const OptimizerStep& step) {
  int64_t blocks = 0;
  for (int64_t i = 0; i < step.number; ++i)
    blocks += (step.tensors[i].count + optimizer::kBlock - 1) / optimizer::kBlock;
  return blocks;
}

// With the numbers that lie in memory, if the step's do.
inline KwOptimizerParams optimizer_numbers(const OptimizerStep& step) {
  KwOptimizerParams numbers = optimizer::numbers_of(step);
  if (step.moving != nullptr) numbers.moves = static_cast<const KwOptimizerMoving*>(step.moving)->moves;
  return numbers;
}

namespace KW_ISA {
namespace {

constexpr int64_t kBlock = optimizer::kBlock;

struct OptimizerBlock {
  float g[kBlock], w[kBlock], state[3][kBlock], under[kBlock];
};

// 1 / (sqrt(v) * by + eps), into b.under.
inline void divide_by_root(const float* v, float by, float eps, float* under) {
  for (int64_t i = 0; i < kBlock; i += kLanes) store(under + i, root(load(v + i)));
  for (int64_t i = 0; i < kBlock; ++i) under[i] = 1.0f / (under[i] * by + eps);
}

inline void take_gradient(const KwOptimizerParams& p, OptimizerBlock& b) {
  for (int64_t i = 0; i < kBlock; ++i) b.g[i] *= p.grad_scale;
  if (p.grad_decay != 0.0f) {
    for (int64_t i = 0; i < kBlock; ++i) b.g[i] += p.grad_decay * b.w[i];
  }
  if (p.moves.decay != 1.0f) {
    for (int64_t i = 0; i < kBlock; ++i) b.w[i] *= p.moves.decay;
  }
}

inline void follow(float keep, float rest, const float* g, float* m) {
  for (int64_t i = 0; i < kBlock; ++i) m[i] = keep * m[i] + rest * g[i];
}

inline void follow_squares(float keep, float rest, const float* g, float* v) {
  for (int64_t i = 0; i < kBlock; ++i) v[i] = keep * v[i] + rest * g[i] * g[i];
}

inline void adam(const KwOptimizerParams& p, OptimizerBlock& b) {
  float *m = b.state[0], *v = b.state[1], *slow = b.state[2];
  follow(p.beta1, p.rest1, b.g, m);
  follow_squares(p.beta2, p.rest2, b.g, v);
  divide_by_root(v, p.moves.correction2, p.eps, b.under);
  if (p.rule == KW_ADEMAMIX) {
    follow(p.moves.beta3, p.moves.rest3, b.g, slow);
    for (int64_t i = 0; i < kBlock; ++i)
      b.w[i] -= p.moves.lr * ((p.moves.correction1 * m[i] + p.moves.alpha * slow[i]) * b.under[i]);
  } else {
    const float rate = p.moves.lr * p.moves.correction1;
    for (int64_t i = 0; i < kBlock; ++i) b.w[i] -= rate * (m[i] * b.under[i]);
  }
}

inline void of_one_state(const KwOptimizerParams& p, OptimizerBlock& b) {
  float* s = b.state[0];
  if (p.rule == KW_MOMENTUM) {
    if (p.moves.first) {
      memcpy(s, b.g, sizeof b.g);
    } else {
      follow(p.beta1, 1.0f, b.g, s);
    }
    for (int64_t i = 0; i < kBlock; ++i) b.w[i] -= p.moves.lr * s[i];
  } else if (p.rule == KW_LION) {
    for (int64_t i = 0; i < kBlock; ++i) {
      const float toward = p.beta1 * s[i] + p.rest1 * b.g[i];
      b.w[i] -= p.moves.lr * (toward > 0.0f ? 1.0f : toward < 0.0f ? -1.0f : toward);
    }
    follow(p.beta2, p.rest2, b.g, s);
  } else {
    const bool adds = p.rule == KW_ADAGRAD;
    follow_squares(adds ? 1.0f : p.beta1, adds ? 1.0f : p.rest1, b.g, s);
    divide_by_root(s, 1.0f, p.eps, b.under);
    for (int64_t i = 0; i < kBlock; ++i) b.w[i] -= p.moves.lr * (b.g[i] * b.under[i]);
  }
}

// What lies past the end is 0.
template <class T>
inline void take(const T* from, int64_t count, float* to) {
  widen(from, to, count);
  for (int64_t i = count; i < kBlock; ++i) to[i] = 0.0f;
}

// Where the states of a block lie: the third is behind the first.
template <class S>
inline S* state_of(const kw_optimizer_tensor& t, int which, int64_t first) {
  return static_cast<S*>(which == 1 ? t.state2 : t.state1) + (which == 2 ? t.count : 0) + first;
}

inline float* scale_at(const kw_optimizer_tensor& t, int which, int64_t first) {
  const int64_t behind = which == 2 ? (t.count + kBlock - 1) / kBlock : 0;
  return (which == 1 ? t.absmax2 : t.absmax1) + behind + first / kBlock;
}

template <class T, bool kCoded>
void update_block(const OptimizerJob& job, const kw_optimizer_tensor& t, int64_t first) {
  const KwOptimizerParams& p = job.numbers;
  const int64_t left = t.count - first, count = left < kBlock ? left : kBlock;
  const int states = optimizer::states_of(p.rule);
  OptimizerBlock b;
  T* const param = static_cast<T*>(t.param) + first;
  take(static_cast<const T*>(t.grad) + first, count, b.g);
  take(param, count, b.w);
  for (int i = 0; i < states; ++i) {
    if constexpr (kCoded) {
      dequantize_block(job.tables[i % 2]->map, state_of<uint8_t>(t, i, first), *scale_at(t, i, first), count,
                       b.state[i]);
      for (int64_t k = count; k < kBlock; ++k) b.state[i][k] = 0.0f;
    } else {
      take(state_of<float>(t, i, first), count, b.state[i]);
    }
  }
  take_gradient(p, b);
  states == 1 ? of_one_state(p, b) : adam(p, b);
  narrow(b.w, param, count);
  for (int i = 0; i < states; ++i) {
    if constexpr (kCoded) {
      *scale_at(t, i, first) = quantize_block(*job.tables[i % 2], b.state[i], count, state_of<uint8_t>(t, i, first));
    } else {
      memcpy(state_of<float>(t, i, first), b.state[i], static_cast<size_t>(count) * sizeof(float));
    }
  }
}

template <class T, bool kCoded>
void update_blocks(const OptimizerJob& job, int64_t begin, int64_t end) {
  int64_t number = 0, before = 0;  // blocks of the tensors before
  for (; begin < end; ++number) {
    const kw_optimizer_tensor& t = job.step.tensors[number];
    const int64_t after = before + (t.count + kBlock - 1) / kBlock;
    for (; begin < end && begin < after; ++begin) update_block<T, kCoded>(job, t, (begin - before) * kBlock);
    before = after;
  }
}

template <bool kCoded>
void update_any(const void* context, int64_t begin, int64_t end) {
  const auto& job = *static_cast<const OptimizerJob*>(context);
  if (job.step.dtype == KW_FLOAT32) return update_blocks<float, kCoded>(job, begin, end);
  if (job.step.dtype == KW_FLOAT16) return update_blocks<Half, kCoded>(job, begin, end);
  return update_blocks<BFloat16, kCoded>(job, begin, end);
}

}  // namespace
}  // namespace KW_ISA
}  // namespace kw::cpu
