// SPDX-License-Identifier: MIT
// Runs checked calls of attention on a GPU.
#pragma once

#include "core/launch.h"
#include "ops/attention/host/attention.h"

namespace kw {

// The family's image on this device, or a refusal.
kw_status attention_context(const char* name, int32_t device, Context* context);

kw_status launch_attention(const char* name, int32_t device, void* stream, const Attention& a);

// Forward, wherever the tensors are.
kw_status run_attention(const char* name, int32_t device, void* stream, const Attention& a);

}  // namespace kw
