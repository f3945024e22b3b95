// SPDX-License-Identifier: MIT
// Runs checked derivatives of attention.
#pragma once

#include "ops/attention/host/attention.h"

namespace kw {

// A number for each row of each head.
int64_t backward_workspace(int32_t device, int64_t batch, int64_t heads, int64_t rows);

kw_status launch_attention_backward(const char* name, int32_t device, void* stream, const AttentionBackward& a);

}  // namespace kw
