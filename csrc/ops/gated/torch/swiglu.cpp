// SPDX-License-Identifier: MIT
#include "ops/gated/api/swiglu.h"

#include "core/error.h"
#include "torch/operator.h"

namespace kw::torch {
namespace {

kw_status swiglu(Call& call) {
  const kw_tensor *const gate = call.tensor(0), *y = nullptr;
  KW_TRY(call.make_like(*gate, &y));
  return kw_swiglu_tensors(call.stream(), y, gate, call.tensor(1));
}

kw_status swiglu_packed(Call& call) {
  const kw_tensor &x = *call.tensor(0), *y = nullptr;
  int64_t sizes[kMostDims];
  if (x.dims < 1 || x.dims > kMostDims) return kElsewhere;
  for (int64_t i = 0; i < x.dims; ++i) sizes[i] = x.sizes[i];
  sizes[x.dims - 1] /= 2;
  KW_TRY(call.make(x.dims, sizes, x.dtype, &y));
  return kw_swiglu_tensors(call.stream(), y, &x, nullptr);
}

kw_status swiglu_backward(Call& call) {
  const kw_tensor *const gate = call.tensor(1), *dgate = nullptr, *dup = nullptr;
  KW_TRY(call.make_like(*gate, &dgate));
  KW_TRY(call.make_like(*gate, &dup));
  return kw_swiglu_backward_tensors(call.stream(), dgate, dup, call.tensor(0), gate, call.tensor(2));
}

kw_status swiglu_packed_backward(Call& call) {
  const kw_tensor *const x = call.tensor(1), *dx = nullptr;
  KW_TRY(call.make_like(*x, &dx));
  return kw_swiglu_backward_tensors(call.stream(), dx, nullptr, call.tensor(0), x, nullptr);
}

KW_TORCH(swiglu, "swiglu", "(Tensor gate, Tensor up) -> Tensor")
KW_TORCH(swiglu_packed, "swiglu.packed", "(Tensor x) -> Tensor")
KW_TORCH(swiglu_backward, "swiglu.backward", "(Tensor grad, Tensor gate, Tensor up) -> (Tensor, Tensor)")
KW_TORCH(swiglu_packed_backward, "swiglu.packed_backward", "(Tensor grad, Tensor x) -> Tensor")

}  // namespace
}  // namespace kw::torch
