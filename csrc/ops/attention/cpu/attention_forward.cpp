// SPDX-License-Identifier: MIT
// Attention on the CPU: blocks of queries are taken apart among the threads.
#include "cpu/pool.h"
#include "cpu/simd.h"
#include "ops/attention/cpu/blocks.h"
#include "ops/attention/cpu/forward.h"
#include "ops/attention/cpu/problem_of.h"

namespace kw::cpu {

KW_CPU_RANGE(attention_blocks)

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
#endif

}  // namespace kw::cpu
