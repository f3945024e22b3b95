// SPDX-License-Identifier: MIT
// Descriptions of tensors, as tests of what is read of one write them down.
#pragma once

#include <kernelwright/base.h>

#include <initializer_list>

constexpr int64_t kMost = INT64_MAX, kLeast = INT64_MIN, kReach = int64_t{1} << 57;
alignas(16) inline char memory[64];

// A description of at most four dimensions, and the arrays that it points to.
struct Described {
  int64_t sizes[4] = {}, strides[4] = {};
  kw_tensor as{KW_TENSOR, memory, sizes, strides, 0, KW_FLOAT32, KW_CPU};

  Described(std::initializer_list<int64_t> size, std::initializer_list<int64_t> stride) {
    for (const int64_t each : size) sizes[as.dims++] = each;
    int64_t at = 0;
    for (const int64_t each : stride) strides[at++] = each;
  }
  Described(const Described&) = delete;
  Described& operator=(const Described&) = delete;
};
