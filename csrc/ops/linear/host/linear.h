// SPDX-License-Identifier: MIT
// A call of kw_linear or kw_gated_linear after its checks, for the CPU and the GPU alike; and what both do with it.
#pragma once

#include <kernelwright/base.h>

namespace kw {

struct Linear {
  void* y;
  const void *x, *weight, *bias;
  int64_t y_stride, x_stride, weight_stride;  // elements
  int64_t m, n, k;  // n of y: the weight of a gated layer has twice as many rows, as its bias has elements
  int32_t activation, dtype;
  bool gated;

  int64_t weight_rows() const { return gated ? 2 * n : n; }
};

// Checks, and runs. `name` is the function's, for its messages.
kw_status run_linear(const char* name, int32_t device, void* stream, const Linear& a,
                     kw_status (*on_cpu)(const Linear&));

// From tensors to all but the activation; `gated` is set.
kw_status read_linear(const char* name, const kw_tensor* y, const kw_tensor* x, const kw_tensor* weight,
                      const kw_tensor* bias, Linear* a, int32_t* device);

// kw_linear_fits and kw_gated_linear_fits.
kw_status linear_fits(const char* name, int32_t device, int64_t alignment, const Linear& a, int32_t* yes);

namespace cpu {
kw_status linear(const Linear& args);
kw_status gated_linear(const Linear& args);
}  // namespace cpu

}  // namespace kw
