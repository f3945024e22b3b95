// SPDX-License-Identifier: MIT
#include "ops/linear/api/linear.h"

#include "ops/linear/torch/choose.h"

namespace kw::torch {
namespace {

kw_status linear(Call& call) {
  return linear_or_elsewhere(call, "linear", 1, KW_NO_ACTIVATION + 1, kw_linear_fits, kw_linear_tensors);
}

KW_TORCH(linear, "linear", "(Tensor x, Tensor weight, Tensor? bias, str activation) -> Tensor")

}  // namespace
}  // namespace kw::torch
