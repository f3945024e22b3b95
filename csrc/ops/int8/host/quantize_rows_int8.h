// SPDX-License-Identifier: MIT
// A call of kw_quantize_rows_int8 after its checks, for the CPU and the GPU alike, and for operators of other families.
#pragma once

#include <kernelwright/base.h>

namespace kw {

struct QuantizeRows {
  int8_t* codes;
  float* absmax;
  int32_t* sums;      // or null
  uint8_t* outliers;  // or null
  const void *x, *weight;
  int64_t codes_stride, x_stride;  // elements
  int64_t rows, cols;
  int32_t dtype, weight_dtype;
  float clamp, threshold, eps;
};

// What kw_quantize_rows_int8 does, in the name of `function`.
kw_status quantize_rows_int8(const char* function, int32_t device, void* stream, const QuantizeRows& args);

namespace cpu {
kw_status quantize_rows_int8(const QuantizeRows& args);
}  // namespace cpu

}  // namespace kw
