// SPDX-License-Identifier: MIT
// What the kernels of the optimizers' operators share: the numbers of a step, and tensors that are changed in place.
#pragma once

#include "core/error.h"
#include "core/tensor.h"
#include "torch/operator.h"

// The arguments that follow the tensors.
#define KW_STEP                                                                                   \
  "str rule, int step, float lr, float beta1, float beta2, float beta3, float alpha, float eps, " \
  "float weight_decay, float grad_scale) -> ()"

namespace kw::torch {

constexpr int64_t kStateBlock = 256;

// The step whose rule stands at `place`; kElsewhere for a rule with another number of states, or odd numbers.
inline kw_status read_step(const Call& call, int place, bool one_state, kw_optimizer* step) {
  static constexpr const char* kRules[] = {"adam", "ademamix", "momentum", "rmsprop", "adagrad", "lion"};
  const int rule = call.one_of(place, kRules, KW_LION + 1);
  if (rule < 0 || (rule > KW_ADEMAMIX) != one_state || call.whole(place + 1) < 1) return kElsewhere;
  const int first = place + 2;
  *step = {call.real(first),
           call.real(first + 1),
           call.real(first + 2),
           call.real(first + 3),
           call.real(first + 4),
           call.real(first + 5),
           call.real(first + 6),
           call.real(first + 7),
           call.whole(place + 1),
           rule,
           0};
  for (int i = 0; i < 8; ++i)
    if (!(__builtin_fabs(call.real(first + i)) <= 3.4028234663852886e38)) return kElsewhere;
  return KW_OK;
}

// param and grad, and how many elements they have.
inline kw_status read_param(const Call& call, int64_t* count) {
  const kw_tensor &param = *call.tensor(0), &grad = *call.tensor(1);
  TensorRows rows;
  if (param.dtype < KW_FLOAT32 || param.dtype > KW_BFLOAT16 || !call.written_apart()) return kElsewhere;
  KW_TRY(count_of("", "param", param, true, count));
  if (param.dims > 0) return rows_beside("", "grad", grad, param, param.sizes[param.dims - 1], &rows);
  return check_flat("", "grad", grad, param, param.dtype, 1, true);
}

}  // namespace kw::torch
