// SPDX-License-Identifier: MIT
#include "ops/toy/api/leaky_relu.h"

#include "torch/elementwise.h"

KW_ELEMENTWISE(leaky_relu, "leaky_relu", ({"x"}), ({"y"}), 1)
KW_TORCH_ELEMENTWISE(leaky_relu, "leaky_relu", "(Tensor x, float slope=0.01) -> Tensor")

KW_API kw_status kw_leaky_relu(int32_t device, void* stream, void* y, int64_t y_stride, const void* x, int64_t x_stride,
                               int64_t rows, int64_t cols, int32_t dtype, double slope) {
  return run_elementwise(kw::leaky_relu, device, stream,
                         {{{x, x_stride}}, {{y, y_stride}}, rows, cols, dtype, {static_cast<float>(slope)}});
}
