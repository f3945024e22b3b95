// SPDX-License-Identifier: MIT
#include "ops/linear/api/gated_linear.h"

#include "ops/linear/torch/choose.h"

namespace kw::torch {
namespace {

kw_status gated_linear(Call& call) {
  return linear_or_elsewhere(call, "gated_linear", 2, KW_NO_ACTIVATION, kw_gated_linear_fits, kw_gated_linear_tensors);
}

KW_TORCH(gated_linear, "gated_linear", "(Tensor x, Tensor weight, Tensor? bias, str activation) -> Tensor")

}  // namespace
}  // namespace kw::torch
