// SPDX-License-Identifier: MIT
// A call of kw_matmul_int8 after its checks, for the CPU and the GPU alike; or of kw_matmul_fp8 (csrc/ops/fp8), whose
// bytes are e4m3.
#pragma once

#include <kernelwright/base.h>

namespace kw {

struct ByteProduct {
  void* y;
  const int8_t *x, *weight;
  const float *x_scale, *weight_scale;  // or null
  const void* bias;                     // or null
  int64_t y_stride, x_stride, weight_stride;
  int64_t m, n, k;
  int32_t dtype, bias_dtype;
  float factor;
  int32_t activation;  // e4m3 alone
};

namespace cpu {
kw_status matmul_int8(const ByteProduct& args);
}  // namespace cpu

}  // namespace kw
