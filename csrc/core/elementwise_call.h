// SPDX-License-Identifier: MIT
// What core/elementwise.cpp hands to an operator's CPU path after its checks.
#pragma once

#include <kernelwright/base.h>

#include "device/elementwise.h"

namespace kw {

// Strides are elements from one row to the next; within a row elements are adjacent.
struct ElementwiseCall {
  struct Input {
    const void* data;
    int64_t stride;
  } in[KW_ELEMENTWISE_INPUTS];
  struct Output {
    void* data;
    int64_t stride;
  } out[KW_ELEMENTWISE_OUTPUTS];
  int64_t rows, cols;
  int32_t dtype;  // KW_FLOAT32, KW_FLOAT16 or KW_BFLOAT16, of all tensors
  float number[KW_ELEMENTWISE_NUMBERS];
};

namespace cpu {
constexpr int64_t kElementwiseUnit = 1024;  // elements of a row that threads are given at a time
}

}  // namespace kw
