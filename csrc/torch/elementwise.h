// SPDX-License-Identifier: MIT
// The kernel for torch's dispatcher of an operator that computes each element by itself (core/elementwise.h):
//
//   KW_TORCH_ELEMENTWISE(softcap, "softcap", "(Tensor x, float cap=50.0) -> Tensor")
//
// Its schema has the inputs, then the numbers as floats; its results are like the first input.
#pragma once

#include "core/elementwise.h"
#include "torch/operator.h"

namespace kw::torch {

kw_status call_elementwise(Call& call, Elementwise& op);

}  // namespace kw::torch

// In no namespace, below KW_ELEMENTWISE().
#define KW_TORCH_ELEMENTWISE(op, name, schema)                                        \
  namespace kw::torch {                                                               \
  static kw_status op##_call(Call& call) { return call_elementwise(call, ::kw::op); } \
  KW_TORCH(op##_call, name, schema)                                                   \
  }
