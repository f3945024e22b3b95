// SPDX-License-Identifier: MIT
// A call of kw_linear after its checks, for the CPU and the GPU alike.
#pragma once

#include <kernelwright/base.h>

namespace kw {

struct Linear {
  void* y;
  const void *x, *weight, *bias;
  int64_t y_stride, x_stride, weight_stride;  // elements
  int64_t m, n, k;
  int32_t activation, dtype;
};

namespace cpu {
kw_status linear(const Linear& args);
}  // namespace cpu

}  // namespace kw
