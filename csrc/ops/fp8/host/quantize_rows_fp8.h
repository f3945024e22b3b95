// SPDX-License-Identifier: MIT
// A call of kw_quantize_rows_fp8 after its checks, for the CPU and the GPU alike.
#pragma once

#include <kernelwright/base.h>

namespace kw {

struct QuantizeRowsFp8 {
  uint8_t* codes;
  float* scale;
  const void* x;
  int64_t codes_stride, x_stride;  // elements
  int64_t rows, cols;
  int32_t dtype;
};

namespace cpu {
kw_status quantize_rows_fp8(const QuantizeRowsFp8& args);
}  // namespace cpu

}  // namespace kw
