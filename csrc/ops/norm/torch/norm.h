// SPDX-License-Identifier: MIT
// The kernels for torch that norms share: `Functions` has the C functions of one, of weight and bias where `kCount` is
// 2, of weight alone where it is 1.
#pragma once

#include "torch/operator.h"

namespace kw::torch {

template <typename Functions>
kw_status norm_forward(Call& call, bool adds, bool inplace) {
  const int parameters = adds ? 2 : 1;
  const kw_tensor &x = *call.tensor(0), *const residual = adds ? call.tensor(1) : nullptr;
  const kw_tensor *y = nullptr, *sum = inplace ? residual : nullptr;
  KW_TRY(call.make_like(x, &y));
  if (adds && !inplace) KW_TRY(call.make_like(x, &sum));
  const double eps = call.real(parameters + Functions::kCount);
  return Functions::forward(call.stream(), y, sum, &x, residual, call.tensor(parameters),
                            Functions::kCount > 1 ? call.tensor(parameters + 1) : nullptr, eps);
}

// (grad, h, parameters, grad_sum, eps, which derivatives of parameters are wanted).
template <typename Functions>
kw_status norm_backward(Call& call) {
  constexpr int kParameters = 2, kSum = kParameters + Functions::kCount, kWanted = kSum + 2;
  const kw_tensor &grad = *call.tensor(0), &h = *call.tensor(1);
  if (h.dims < 1) return kElsewhere;
  const int64_t cols = h.sizes[h.dims - 1];
  int64_t rows = 1;
  for (int64_t i = 0; i < h.dims - 1; ++i) rows *= h.sizes[i];
  if (rows < 1 || cols < 1) return kElsewhere;
  const kw_tensor *dx = nullptr, *parameters[2] = {}, *results[2] = {};
  KW_TRY(call.make_like(h, &dx));
  bool any = false;
  for (int i = 0; i < Functions::kCount; ++i) {
    const bool wanted = call.flag(kWanted + i);
    const int64_t size = wanted ? cols : 0;
    const kw_tensor* made = nullptr;
    parameters[i] = call.tensor(kParameters + i);
    if (wanted && parameters[i] == nullptr) return kElsewhere;
    KW_TRY(call.make(1, &size, (parameters[i] != nullptr ? *parameters[i] : h).dtype, &made));
    if (wanted) results[i] = made;
    any = any || wanted;
  }
  int64_t bytes = 0;
  void* workspace = nullptr;
  if (any) KW_TRY(Functions::workspace(h.device, rows, cols, &bytes));
  KW_TRY(call.scratch(bytes, &workspace));
  return Functions::backward(call.stream(), dx, results, &grad, call.tensor(kSum), &h, parameters, workspace, bytes,
                             call.real(kSum + 1));
}

}  // namespace kw::torch
