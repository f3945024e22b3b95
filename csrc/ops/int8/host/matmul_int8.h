// SPDX-License-Identifier: MIT
// A call of kw_matmul_int8 after its checks, for the CPU and the GPU alike.
#pragma once

#include <kernelwright/base.h>

namespace kw {

struct MatmulInt8 {
  void* y;
  const int8_t *x, *weight;
  const float *x_scale, *weight_scale;  // or null
  const void* bias;                     // or null
  int64_t y_stride, x_stride, weight_stride;
  int64_t m, n, k;
  int32_t dtype, bias_dtype;
  float factor;
};

namespace cpu {
kw_status matmul_int8(const MatmulInt8& args);
}  // namespace cpu

}  // namespace kw
