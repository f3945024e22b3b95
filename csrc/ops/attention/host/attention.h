// SPDX-License-Identifier: MIT
// A call of attention after its checks, for the CPU and the GPU alike.
#pragma once

#include <kernelwright/base.h>

namespace kw {

// Elements from one batch, head and row to the next; within a row they are adjacent. Of sequences that lie one after
// the other `batch` is 0.
struct HeadTensor {
  void* data;
  int64_t batch, head, row;
};

// A number for each score, or none: data is null. Elements.
struct ScoreTensor {
  const void* data;
  int64_t batch, head, row, column;
};

struct Attention {
  HeadTensor q, k, v, out;
  float* lse;  // or null
  int64_t lse_batch, lse_head;
  ScoreTensor mask, bias;
  int32_t bias_dtype;
  const float *sinks, *slopes;  // or null
  int64_t slopes_batch, slopes_head;
  const int32_t *starts_q, *starts_k;                     // of sequences of different lengths, else null
  int64_t batch, heads, kv_heads, queries, keys, d, d_v;  // of sequences queries and keys are the most
  int64_t total_q, total_k;                               // rows of all sequences
  int64_t window_left, window_right;                      // causal is in the second; -1: all
  double scale, softcap;
  int32_t dtype;
};

// A call of the derivative. The tensors of `of` are those of the forward pass, out and lse its results.
struct AttentionBackward {
  Attention of;
  HeadTensor dout, dq, dk, dv;
  float* dsinks;  // or null
  void* workspace;
  int64_t workspace_bytes;
  bool deterministic;
};

namespace cpu {
kw_status attention(const Attention& args);
kw_status attention_varlen(const Attention& args);  // refuses sequences that do not lie in their tensors
kw_status attention_backward(const AttentionBackward& args);
}  // namespace cpu

}  // namespace kw
