// SPDX-License-Identifier: MIT
#include "ops/ternary/api/relu2_gated.h"

#include "core/error.h"
#include "core/tensor.h"
#include "torch/operator.h"

namespace kw::torch {
namespace {

constexpr const char* kName = "relu2_gated";

kw_status relu2_gated(Call& call) {
  const kw_tensor &gate = *call.tensor(0), &up = *call.tensor(1), *y = nullptr;
  TensorRows a, b;
  KW_TRY(rows_of(kName, "gate", gate, &a));
  KW_TRY(rows_beside(kName, "up", up, gate, a.cols, &b));
  KW_TRY(call.make_like(gate, &y));
  return kw_relu2_gated(gate.device, call.stream(), y->data, a.cols, gate.data, a.stride, up.data, b.stride, a.count,
                        a.cols, gate.dtype);
}

kw_status relu2_gated_backward(Call& call) {
  const kw_tensor &grad = *call.tensor(0), &gate = *call.tensor(1), &up = *call.tensor(2), *dgate = nullptr,
                  *dup = nullptr;
  TensorRows a, b, c;
  KW_TRY(rows_of(kName, "gate", gate, &a));
  KW_TRY(rows_beside(kName, "up", up, gate, a.cols, &b));
  KW_TRY(rows_beside(kName, "grad", grad, gate, a.cols, &c));
  KW_TRY(call.make_like(gate, &dgate));
  KW_TRY(call.make_like(gate, &dup));
  return kw_relu2_gated_backward(gate.device, call.stream(), dgate->data, a.cols, dup->data, a.cols, grad.data,
                                 c.stride, gate.data, a.stride, up.data, b.stride, a.count, a.cols, gate.dtype);
}

KW_TORCH(relu2_gated, "relu2_gated", "(Tensor gate, Tensor up) -> Tensor")
KW_TORCH(relu2_gated_backward, "relu2_gated.backward", "(Tensor grad, Tensor gate, Tensor up) -> (Tensor, Tensor)")

}  // namespace
}  // namespace kw::torch
