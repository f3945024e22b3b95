// SPDX-License-Identifier: MIT
// A call of attention of few queries after its checks, for the CPU and the GPU alike.
#pragma once

#include "ops/attention/host/attention.h"

namespace kw {

struct Decode {
  Attention of;  // the forward pass; its keys are the rows that a cache has room for
  HeadTensor k_new, v_new;
  int64_t new_rows;
  const int32_t *lengths, *pages, *batch_index;  // or null
  int64_t pages_stride, page_rows, caches;       // caches: pages, or batches of k
  const void *cos, *sin;                         // or null
  int64_t rope_row, pairs, max_positions;        // max_positions: rows of cos
  bool interleaved, moves;                       // moves: each query has a position of its own
  int64_t splits;
  void* workspace;
  int64_t workspace_bytes;
};

namespace cpu {
kw_status attention_decode(const Decode& args);
}  // namespace cpu

}  // namespace kw
