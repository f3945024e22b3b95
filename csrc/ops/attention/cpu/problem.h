// SPDX-License-Identifier: MIT
// What attention on the CPU is given: dense batches, packed sequences, and caches in one piece or in pages, all alike.
// Arguments are checked before.
#pragma once

#include <kernelwright/base.h>

namespace kw::cpu {

// Elements from one batch, head and row to the next; the elements of a row are adjacent.
struct AttentionTensor {
  void* data;
  int64_t batch, head, row;
};

// For each score. Any stride may be 0.
struct AttentionMask {
  const void* data;  // nullptr: none
  int64_t batch, head, row, column;
  int32_t dtype;
};

struct AttentionProblem {
  AttentionTensor q, k, v, out;
  int64_t batches, heads, kv_heads, d, d_v;
  int64_t queries, keys;  // of each batch; of packed sequences, and of caches with `lengths`, at most
  int32_t dtype;

  // Packed sequences: where each begins, and one more; their rows stand in one batch. nullptr: dense.
  const int32_t *first_query, *first_key;
  int64_t total_queries, total_keys;  // in all of them
  const int32_t* lengths;             // keys in each batch's cache, or nullptr
  const int32_t* pages;               // which page of k and v has which rows of a batch's cache, or nullptr
  int64_t pages_stride;               // from one batch to the next
  int64_t page_rows;                  // k.batch and v.batch are from one page to the next
  const int32_t* batch_index;         // which batch of the caches each batch of q has, or nullptr
  int64_t new_rows;                   // behind `lengths`
  const void *cos, *sin;              // rope of queries by their positions from `lengths` on, or nullptr
  int64_t rope_row, pairs, max_positions;
  bool interleaved, moves;  // a pair are neighbours; each query has a position of its own

  AttentionMask mask;   // bytes: 0 where a key takes no part
  AttentionMask bias;   // added to the scores
  const float* sinks;   // a score of each head that takes its share and gives nothing, or nullptr
  const float* slopes;  // ALiBi's of each head, or nullptr
  int64_t slopes_batch, slopes_head;
  float scale, softcap;  // softcap 0: none
  int64_t left, right;   // keys to be seen before and after a query's own position; less than 0: all

  float* lse;  // nullptr: not wanted
  int64_t lse_batch, lse_head;

  AttentionTensor dout, dq, dk, dv;  // of the backward pass, which reads out and lse too
  float* dsinks;                     // nullptr: not wanted
};

kw_status run_attention(const AttentionProblem& problem);
kw_status run_attention_backward(const AttentionProblem& problem);

}  // namespace kw::cpu
