// SPDX-License-Identifier: MIT
// From tensors to a checked call of attention. Messages name the C function and the argument.
#pragma once

#include "core/checks.h"
#include "core/tensor.h"
#include "ops/attention/host/attention.h"

namespace kw::attention_checks {

// Both ways of calling: four dimensions, or three and where sequences begin.
struct Tensors {
  const kw_tensor *out, *lse, *q, *k, *v, *mask, *bias, *sinks, *slopes, *starts_q, *starts_k;
};

struct Options {
  int32_t causal;
  int64_t window_left, window_right;
  double scale, softcap;
  int64_t max_q, max_k;  // of sequences
};

constexpr int64_t kMostD = 256, kMostRows = int64_t{1} << 30;

// Reads and checks all of a forward call; `device` is where it runs.
kw_status read(const char* name, const Tensors& tensors, const Options& options, Attention* a, int32_t* device);

// Rows like those of `like` (data, strides) of another tensor: `d` elements each.
kw_status read_beside(const char* name, const char* argument, const kw_tensor* tensor, const kw_tensor* like, int64_t d,
                      HeadTensor* found);

// Numbers of a call whose sizes are known already.
kw_status check_numbers(const char* name, const Options& options, Attention* a);

// An array without gaps of rows of d elements.
kw_status check_array(const char* name, const char* argument, const void* data, int64_t rows, int64_t batch,
                      int64_t heads, int64_t d, int32_t dtype);

}  // namespace kw::attention_checks
