// SPDX-License-Identifier: MIT
// Attention of 8-bit floats on the CPU, in float32: blocks of queries are taken apart among the threads.
#include "ops/attention/host/attention_fp8.h"
#include "cpu/pool.h"
#include "cpu/simd.h"
#include "ops/attention/cpu/blocks.h"
#include "ops/attention/cpu/problem_of.h"
#include "ops/attention/cpu/softmax.h"
#include "ops/fp8/cpu/e4m3.h"

namespace kw::cpu {

KW_CPU_RANGE(attention_fp8_blocks)

struct Fp8Blocks {
  AttentionBlocks blocks;
  const AttentionFp8& args;
};

namespace KW_ISA {
namespace {

constexpr int64_t kFp8Rows = 64;

class Fp8Forward {
 public:
  Fp8Forward(const AttentionProblem& problem, const AttentionFp8& given)
      : a(problem), args(given), wide_v(padded(problem.d_v)) {}

  void run(const Sequence& s, const Block& block) {
    const int64_t rows = block.rows(), kv_head = block.head / (a.heads / a.kv_heads);
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t head = block.head_of(i);
      decode(query_row_of<uint8_t>(a.q, s, head, block.query_of(i)), a.d, q_[i]);
      factors_[i] = args.q_scale.of(s.batch, head) * args.k_scale.of(s.batch, kv_head) * a.scale;
      memset(out_[i], 0, static_cast<size_t>(wide_v) * sizeof(float));
      sums_[i].begin(a, head);
    }
    const Span span = span_of(a, s, block.query, block.queries);
    for (int64_t key = span.begin; key < span.end; key += kTileKeys) {
      const int64_t count = key + kTileKeys < span.end ? int64_t{kTileKeys} : span.end - key;
      tile(s, block, kv_head, key, count);
    }
    const float of_values = args.v_scale.of(s.batch, kv_head);
    for (int64_t i = 0; i < rows; ++i) {
      put(s, block.head_of(i), block.query_of(i), sums_[i].inverse() * of_values, out_[i]);
      if (a.lse != nullptr) *lse_of(a, s, block.head_of(i), block.query_of(i)) = sums_[i].lse();
    }
  }

 private:
  // What codes stand for, and zeros up to whole vectors.
  static void decode(const uint8_t* from, int64_t count, float* to) {
    Half half[kMostWide];
    for (int64_t i = 0; i < count; ++i) half[i].bits = half_of_e4m3(from[i]);
    for (int64_t i = count; i % kLanes != 0; ++i) half[i].bits = 0;
    for (int64_t i = 0; i < count; i += kLanes) store(to + i, mul(load(half + i), all(256.0f)));
  }

  void put(const Sequence& s, int64_t head, int64_t query, float factor, const float* from) const {
    if (a.dtype == KW_FLOAT32) return store_row(from, a.d_v, factor, query_row_of<float>(a.out, s, head, query));
    if (a.dtype == KW_FLOAT16) return store_row(from, a.d_v, factor, query_row_of<Half>(a.out, s, head, query));
    store_row(from, a.d_v, factor, query_row_of<BFloat16>(a.out, s, head, query));
  }

  void rows_of(const AttentionTensor& of, const Sequence& s, int64_t kv_head, int64_t key, int64_t count, int64_t d) {
    for (int64_t j = 0; j < count; ++j) decode(row_of<uint8_t>(a, of, s, kv_head, key + j), d, tile_[j]);
  }

  void tile(const Sequence& s, const Block& block, int64_t kv_head, int64_t key, int64_t count) {
    const int64_t rows = block.rows(), width = padded(count);
    rows_of(a.k, s, kv_head, key, count, a.d);
    transpose({tile_[0], kMostWide}, count, a.d, {keys_[0], kTileKeys});
    product<false>({q_[0], kMostWide}, {keys_[0], kTileKeys}, {scores_[0], kTileKeys}, rows, width, a.d);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < width; j += kLanes) store(scores_[i] + j, mul(load(scores_[i] + j), all(factors_[i])));
      finish_scores(a, s, block.head_of(i), block.query_of(i), key, width, scores_[i]);
      const float factor = sums_[i].add_tile(scores_[i], width);
      if (factor == 1.0f) continue;
      for (int64_t j = 0; j < wide_v; j += kLanes) store(out_[i] + j, mul(load(out_[i] + j), all(factor)));
    }
    rows_of(a.v, s, kv_head, key, count, a.d_v);
    product<true>({scores_[0], kTileKeys}, {tile_[0], kMostWide}, {out_[0], kMostWide}, rows, wide_v, count);
  }

  const AttentionProblem& a;
  const AttentionFp8& args;
  const int64_t wide_v;
  float factors_[kFp8Rows];
  RowSums sums_[kFp8Rows];
  alignas(64) float q_[kFp8Rows][kMostWide];
  alignas(64) float out_[kFp8Rows][kMostWide];
  alignas(64) float scores_[kFp8Rows][kTileKeys];
  alignas(64) float tile_[kTileKeys][kMostWide];
  alignas(64) float keys_[kMostWide][kTileKeys];
};

}  // namespace

void attention_fp8_blocks(const void* context, int64_t begin, int64_t end) {
  const auto& all = *static_cast<const Fp8Blocks*>(context);
  const AttentionBlocks& blocks = all.blocks;
  Fp8Forward forward(blocks.problem, all.args);
  for (int64_t i = begin; i < end; ++i) {
    const Sequence s = sequence_of(blocks.problem, blocks.batch_of(i));
    const int64_t query = blocks.query_of(i), head = blocks.head_of(i), left = s.queries - query;
    forward.run(s, {head, blocks.heads_of(head), query, left < blocks.queries ? left : blocks.queries});
  }
}

}  // namespace KW_ISA

#if KW_CPU_BASELINE
kw_status attention_fp8(const AttentionFp8& args) {
  constexpr int64_t kRows = 64, kProducts = 131072;
  const AttentionProblem problem = problem_of(args.of);
  const Fp8Blocks all = {AttentionBlocks(problem, kRows), args};
  const AttentionBlocks& blocks = all.blocks;
  const int64_t products = blocks.heads * blocks.queries * (problem.keys + 1) * (problem.d + problem.d_v + 1);
  parallel_for(blocks.count(), 1 + kProducts / products, picked_attention_fp8_blocks(), &all);
  return KW_OK;
}
#endif

}  // namespace kw::cpu
