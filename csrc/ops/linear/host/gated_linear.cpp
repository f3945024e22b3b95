// SPDX-License-Identifier: MIT
// kw_gated_linear: a linear layer whose first half of columns, after an activation, are the gates of the second.
#include "ops/linear/api/gated_linear.h"

#include "core/error.h"
#include "ops/linear/host/linear.h"

KW_API kw_status kw_gated_linear(int32_t device, void* stream, void* y, int64_t y_stride, const void* x,
                                 int64_t x_stride, const void* weight, int64_t weight_stride, const void* bias,
                                 int64_t m, int64_t n, int64_t k, int32_t activation, int32_t dtype) {
  const kw::Linear a{y, x, weight, bias, y_stride, x_stride, weight_stride, m, n, k, activation, dtype, true};
  return kw::run_linear("kw_gated_linear", device, stream, a, kw::cpu::gated_linear);
}

KW_API kw_status kw_gated_linear_tensors(void* stream, const kw_tensor* y, const kw_tensor* x, const kw_tensor* weight,
                                         const kw_tensor* bias, int32_t activation) {
  constexpr const char* kName = "kw_gated_linear_tensors";
  kw::Linear a{};
  a.gated = true;
  int32_t device = KW_CPU;
  KW_TRY(kw::read_linear(kName, y, x, weight, bias, &a, &device));
  a.activation = activation;
  return kw::run_linear(kName, device, stream, a, kw::cpu::gated_linear);
}

KW_API kw_status kw_gated_linear_fits(int32_t device, int64_t m, int64_t n, int64_t k, int64_t alignment, int32_t dtype,
                                      int32_t* yes) {
  const kw::Linear a{nullptr, nullptr, nullptr, nullptr, n, k, k, m, n, k, KW_NO_ACTIVATION, dtype, true};
  return kw::linear_fits("kw_gated_linear_fits", device, alignment, a, yes);
}
