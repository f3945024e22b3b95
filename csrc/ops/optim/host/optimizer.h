// SPDX-License-Identifier: MIT
// A step of an optimizer: its arguments, checked once, and the numbers that the CPU and the GPU compute with.
#pragma once

#include <kernelwright/base.h>

#include "core/error.h"
#include "ops/optim/params.h"

namespace kw {

struct OptimizerStep {
  const kw_optimizer_tensor* tensors;
  int64_t number;
  const float* map1;  // of 8-bit states, else nullptr
  const float* map2;
  const kw_optimizer* optimizer;
  int32_t dtype;
  const void* moving = nullptr;  // a KwOptimizerMoving where the tensors are, if the step's number moves on there
};

namespace cpu {
kw_status optimizer_update_8bit_blockwise(const OptimizerStep& step);
kw_status optimizer_update_32bit(const OptimizerStep& step);
}  // namespace cpu

namespace optimizer {

constexpr int64_t kBlock = 256;  // of 8-bit states

inline int states_of(int32_t rule) { return rule == KW_ADAM ? 2 : rule == KW_ADEMAMIX ? 3 : 1; }

kw_status check_optimizer(const char* name, const kw_optimizer* optimizer);
kw_status check(const char* name, int32_t device, bool coded, const OptimizerStep& step);

// What the numbers that change with the step are made of.
KwOptimizerStep step_of(const kw_optimizer& optimizer);

// All but the tensors, in float32 as the kernels have it; without what lies in `moving`.
KwOptimizerParams numbers_of(const OptimizerStep& step);

}  // namespace optimizer
}  // namespace kw
