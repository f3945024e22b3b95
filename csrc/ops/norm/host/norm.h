// SPDX-License-Identifier: MIT
// The checked arguments of both normalisations, forward and backward, as launchers and CPU path see them.
// rms_norm has no mean and no bias: those pointers are nullptr there, and `centered` is false.
#pragma once

#include <kernelwright/base.h>

#include "core/sizes.h"

namespace kw {

constexpr int64_t kMaxCols = 65536;

struct Norm {
  void* y;
  void* sum;  // nullptr: not wanted
  const void* x;
  const void* residual;  // nullptr: none
  const void* weight;    // nullptr: none
  const void* bias;      // nullptr: none
  float* mean;           // nullptr: not wanted
  float* rstd;           // nullptr: not wanted
  int64_t y_stride, sum_stride, x_stride, residual_stride;
  int64_t rows, cols;
  int32_t dtype, weight_dtype;
  float eps;
  bool centered;
};

struct NormBackward {
  void* dx;
  void* dweight;  // nullptr: not wanted
  void* dbias;    // nullptr: not wanted
  const void* dy;
  const void* dsum;  // nullptr: none
  const void* h;
  const void* weight;  // nullptr: none
  const float* mean;   // nullptr: to be computed
  const float* rstd;   // nullptr: to be computed
  void* workspace;     // holds at least what *_workspace() asked for, if dweight or dbias is wanted
  int64_t dx_stride, dy_stride, dsum_stride, h_stride;
  int64_t rows, cols;
  int32_t dtype, weight_dtype;
  float eps;
  bool centered;
};

namespace cpu {
// On the thread pool; arguments were checked.
kw_status rms_norm(const Norm& args);
kw_status layer_norm(const Norm& args);
kw_status rms_norm_backward(const NormBackward& args);
kw_status layer_norm_backward(const NormBackward& args);
int64_t norm_backward_workspace(int64_t rows, int64_t cols, bool centered);
}  // namespace cpu

}  // namespace kw
