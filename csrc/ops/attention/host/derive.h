// SPDX-License-Identifier: MIT
// The derivatives of attention by warpgroups, and what they share with those by warps.
#pragma once

#include "core/launch.h"
#include "ops/attention/host/backward.h"
#include "ops/attention/host/plan.h"

namespace kw {

KwAttentionBackwardParams backward_params(const AttentionBackward& b, int64_t l2);

// Of so many tiles of each head of each batch, where one launch takes them.
kw_status count_blocks(const char* name, int64_t tiles, int64_t heads, int64_t batch, int64_t* blocks);

// The derivative by sinks, where it is asked for; each row's delta is there.
kw_status launch_sinks(const char* name, int32_t device, void* stream, const AttentionBackward& b);

// What the kernels for warpgroups want of scratch memory; nothing where they do not compute it.
struct DerivePlan {
  int64_t all_tiles;             // of queries: of a head of a batch, or of a head of all sequences
  int64_t numbers, sums, bytes;  // where the two begin, behind what the others want, and where they end
};

DerivePlan derive_plan(const Context& context, const BackwardSizes& of);

bool fits_derive(const AttentionBackward& b, const DerivePlan& plan, uint32_t features);

kw_status launch_derive(const char* name, int32_t device, void* stream, const AttentionBackward& b,
                        const DerivePlan& plan);

}  // namespace kw
