// SPDX-License-Identifier: MIT
// Runs checked derivatives of attention.
#pragma once

#include "ops/attention/host/attention.h"

namespace kw {

struct BackwardSizes {
  int64_t batch, heads, rows, d, d_v;  // rows of all sequences where there are some
  bool sequences, deterministic;
};

// Bytes of scratch memory on a GPU.
kw_status backward_workspace(const char* name, int32_t device, const BackwardSizes& of, int64_t* bytes);

kw_status launch_attention_backward(const char* name, int32_t device, void* stream, const AttentionBackward& a);

}  // namespace kw
