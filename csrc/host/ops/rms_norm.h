// SPDX-License-Identifier: MIT
// The checked arguments of kw_rms_norm, as launcher and CPU path see them.
#pragma once

#include <kernelwright/base.h>

namespace kw {

struct RmsNorm {
  void* y;
  void* sum;  // nullptr: not wanted
  const void* x;
  const void* residual;  // nullptr: none
  const void* weight;    // nullptr: none
  float* rstd;           // nullptr: not wanted
  int64_t y_stride, sum_stride, x_stride, residual_stride;
  int64_t rows, cols;
  int32_t dtype, weight_dtype;
  float eps;
};

namespace cpu {
// Runs on the thread pool; arguments were checked.
kw_status rms_norm(const RmsNorm& args);
}  // namespace cpu

}  // namespace kw
