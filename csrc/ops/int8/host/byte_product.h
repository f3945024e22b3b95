// SPDX-License-Identifier: MIT
// What calls of matmul_int8 and of matmul_fp8 have in common: checks, and how they are launched.
#pragma once

#include "core/checks.h"
#include "ops/int8/host/matmul_plan.h"

namespace kw {

// By warpgroups; of few rows, by warps, on any GPU.
struct ByteKernels {
  Kernel single[3], pair;
  Kernel few[2], tile, any;
  matmul_int8_plan::Needs needs;
};

kw_status check_bias_type(const char* name, const ByteProduct& a);
kw_status check_sizes(const char* name, const ByteProduct& a);
kw_status check_pointers(const char* name, const ByteProduct& a);

// `name` is the function's, for its messages.
kw_status run_product(const char* name, const Context& context, void* stream, const ByteProduct& a,
                      ByteKernels* kernels);

}  // namespace kw
