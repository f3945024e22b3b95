// SPDX-License-Identifier: MIT
// Attention on the CPU and its derivatives: blocks of queries, and tiles of keys, are taken apart among the threads.
#include "core/error.h"
#include "cpu/pool.h"
#include "cpu/simd.h"
#include "ops/attention/cpu/backward.h"
#include "ops/attention/cpu/blocks.h"
#include "ops/attention/cpu/forward.h"
#include "ops/attention/cpu/problem_of.h"

namespace kw::cpu {

KW_CPU_RANGE(attention_blocks)
KW_CPU_RANGE(attention_gradient_by_queries)
KW_CPU_RANGE(attention_gradient_by_keys)
KW_CPU_RANGE(attention_gradient_by_sinks)

constexpr int64_t kKeysAtOnce = 64;

namespace KW_ISA {
namespace {

template <class T>
void run_blocks(const AttentionBlocks& blocks, int64_t begin, int64_t end) {
  const AttentionProblem& a = blocks.problem;
  Forward<T> forward(a);
  for (int64_t i = begin; i < end; ++i) {
    const Sequence s = sequence_of(a, blocks.batch_of(i));
    const int64_t query = blocks.query_of(i), head = blocks.head_of(i);
    if (query >= s.queries) continue;
    const int64_t queries = s.queries - query < blocks.queries ? s.queries - query : blocks.queries;
    forward.run(s, {head, blocks.heads_of(head), query, queries});
  }
}

}  // namespace

void attention_blocks(const void* context, int64_t begin, int64_t end) {
  const auto& blocks = *static_cast<const AttentionBlocks*>(context);
  if (blocks.problem.dtype == KW_FLOAT32) return run_blocks<float>(blocks, begin, end);
  if (blocks.problem.dtype == KW_FLOAT16) return run_blocks<Half>(blocks, begin, end);
  return run_blocks<BFloat16>(blocks, begin, end);
}

}  // namespace KW_ISA

namespace KW_ISA {
namespace {

// `run` of the class for the problem's element type.
template <class Run>
void with_type(const AttentionProblem& a, Run run) {
  if (a.dtype == KW_FLOAT32) return run(Backward<float>(a));
  if (a.dtype == KW_FLOAT16) return run(Backward<Half>(a));
  return run(Backward<BFloat16>(a));
}

}  // namespace

void attention_gradient_by_queries(const void* context, int64_t begin, int64_t end) {
  const auto& blocks = *static_cast<const AttentionBlocks*>(context);
  with_type(blocks.problem, [&](auto&& backward) {
    for (int64_t i = begin; i < end; ++i) {
      const Sequence s = sequence_of(blocks.problem, blocks.batch_of(i));
      const int64_t query = blocks.query_of(i), head = blocks.head_of(i), left = s.queries - query;
      if (left > 0)
        backward.by_queries(s, {head, blocks.heads_of(head), query, left < blocks.queries ? left : blocks.queries});
    }
  });
}

void attention_gradient_by_keys(const void* context, int64_t begin, int64_t end) {
  const auto& a = *static_cast<const AttentionProblem*>(context);
  const int64_t tiles = (a.keys + kKeysAtOnce - 1) / kKeysAtOnce;
  with_type(a, [&](auto&& backward) {
    for (int64_t i = begin; i < end; ++i) {
      const Sequence s = sequence_of(a, i / tiles / a.kv_heads);
      const int64_t key = i % tiles * kKeysAtOnce, left = s.keys - key;
      if (left > 0) backward.by_keys(s, i / tiles % a.kv_heads, key, left < kKeysAtOnce ? left : kKeysAtOnce);
    }
  });
}

void attention_gradient_by_sinks(const void* context, int64_t begin, int64_t end) {
  const auto& a = *static_cast<const AttentionProblem*>(context);
  with_type(a, [&](auto&& backward) {
    for (int64_t head = begin; head < end; ++head) a.dsinks[head] = backward.by_sink(head);
  });
}

}  // namespace KW_ISA

#if KW_CPU_BASELINE
kw_status run_attention(const AttentionProblem& a) {
  constexpr int64_t kRows = 64, kProducts = 131072;
  if (a.batches == 0 || a.heads == 0 || a.queries == 0) return KW_OK;
  const AttentionBlocks blocks(a, kRows);
  const int64_t products = blocks.heads * blocks.queries * (a.keys + 1) * (a.d + a.d_v + 1);
  parallel_for(blocks.count(), 1 + kProducts / products, picked_attention_blocks(), &blocks);
  return KW_OK;
}

kw_status attention(const Attention& args) { return run_attention(problem_of(args)); }

kw_status run_attention_backward(const AttentionProblem& a) {
  constexpr int64_t kRowsAtMost = 32;
  const int64_t tiles = (a.keys + kKeysAtOnce - 1) / kKeysAtOnce;
  if (a.heads == 0) return KW_OK;
  if (a.batches > 0 && a.queries > 0) {
    const AttentionBlocks blocks(a, kRowsAtMost);
    parallel_for(blocks.count(), 1, picked_attention_gradient_by_queries(), &blocks);
  }
  if (a.batches > 0 && tiles > 0)
    parallel_for(a.batches * a.kv_heads * tiles, 1, picked_attention_gradient_by_keys(), &a);
  if (a.dsinks != nullptr) parallel_for(a.heads, 1, picked_attention_gradient_by_sinks(), &a);
  return KW_OK;
}

kw_status attention_backward(const AttentionBackward& args) {
  KW_TRY(check_sequences(args.of));
  AttentionProblem a = problem_of(args.of);
  a.dout = tensor_of(args.dout);
  a.dq = tensor_of(args.dq);
  a.dk = tensor_of(args.dk);
  a.dv = tensor_of(args.dv);
  a.dsinks = args.dsinks;
  return run_attention_backward(a);
}
#endif

}  // namespace kw::cpu
