// SPDX-License-Identifier: MIT
#include "ops/optim/api/optimizer_update_32bit.h"

#include "ops/optim/torch/step.h"

namespace kw::torch {
namespace {

kw_status update(Call& call, bool one_state) {
  constexpr const char* kName = "optimizer_update_32bit";
  const kw_tensor& param = *call.tensor(0);
  const int states = one_state ? 1 : 2;
  kw_optimizer step;
  int64_t count = 0;
  float* at[2] = {};
  KW_TRY(read_step(call, 2 + states, one_state, &step));
  KW_TRY(read_param(call, &count));
  for (int i = 0; i < states; ++i) {
    const kw_tensor& state = *call.tensor(2 + i);
    const int64_t held = step.rule == KW_ADEMAMIX && i == 0 ? 2 * count : count;
    KW_TRY(check_flat(kName, "state", state, param, KW_FLOAT32, held, true));
    at[i] = static_cast<float*>(state.data);
  }
  return kw_optimizer_update_32bit(param.device, call.stream(), param.data, call.tensor(1)->data, at[0], at[1], &step,
                                   count, param.dtype);
}

kw_status optimizer_update_32bit(Call& call) { return update(call, false); }
kw_status optimizer_update_32bit_one_state(Call& call) { return update(call, true); }

KW_TORCH(optimizer_update_32bit, "optimizer_update_32bit",
         "(Tensor(a!) param, Tensor grad, Tensor(b!) state1, Tensor(c!) state2, " KW_STEP)
KW_TORCH(optimizer_update_32bit_one_state, "optimizer_update_32bit.one_state",
         "(Tensor(a!) param, Tensor grad, Tensor(b!) state1, " KW_STEP)

}  // namespace
}  // namespace kw::torch
