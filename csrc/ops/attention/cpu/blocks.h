// SPDX-License-Identifier: MIT
// How a problem is cut into blocks that threads compute alone.
#pragma once

#include "ops/attention/cpu/problem.h"

namespace kw::cpu {

struct AttentionBlocks {
  const AttentionProblem& problem;
  int64_t heads, queries;             // of a block, at most
  int64_t head_blocks, query_blocks;  // of a batch

  AttentionBlocks(const AttentionProblem& a, int64_t rows) : problem(a) {
    const int64_t group = a.heads / a.kv_heads;
    heads = group < rows ? group : rows;
    const int64_t fitting = rows / heads;
    queries = a.queries < fitting ? a.queries : fitting;
    head_blocks = a.kv_heads * ((group + heads - 1) / heads);
    query_blocks = (a.queries + queries - 1) / queries;
  }

  int64_t count() const { return problem.batches * head_blocks * query_blocks; }

  // First and last blocks of queries in turns: where later ones see more keys, neighbours together see as many.
  int64_t query_of(int64_t i) const {
    const int64_t at = i % query_blocks;
    return (at % 2 == 0 ? at / 2 : query_blocks - 1 - at / 2) * queries;
  }
  int64_t batch_of(int64_t i) const { return i / query_blocks / head_blocks; }
  int64_t head_of(int64_t i) const {
    const int64_t group = problem.heads / problem.kv_heads, blocks = (group + heads - 1) / heads;
    const int64_t at = i / query_blocks % head_blocks;
    return at / blocks * group + at % blocks * heads;
  }
  int64_t heads_of(int64_t head) const {
    const int64_t group = problem.heads / problem.kv_heads, left = group - head % group;
    return left < heads ? left : heads;
  }
};

}  // namespace kw::cpu
