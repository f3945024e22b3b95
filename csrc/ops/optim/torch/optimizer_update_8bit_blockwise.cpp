// SPDX-License-Identifier: MIT
#include "ops/optim/api/optimizer_update_8bit_blockwise.h"

#include "core/sizes.h"
#include "ops/optim/torch/step.h"

namespace kw::torch {
namespace {

// param, grad, then states, their scales and their maps, one or two of each.
kw_status update(Call& call, bool one_state) {
  constexpr const char* kName = "optimizer_update_8bit_blockwise";
  const kw_tensor& param = *call.tensor(0);
  const int states = one_state ? 1 : 2;
  kw_optimizer step;
  int64_t count = 0;
  uint8_t* codes[2] = {};
  float* scales[2] = {};
  const float* maps[2] = {};
  KW_TRY(read_step(call, 2 + 3 * states, one_state, &step));
  KW_TRY(read_param(call, &count));
  for (int i = 0; i < states; ++i) {
    const kw_tensor &state = *call.tensor(2 + i), &scale = *call.tensor(2 + states + i);
    const kw_tensor& map = *call.tensor(2 + 2 * states + i);
    const int64_t twice = step.rule == KW_ADEMAMIX && i == 0 ? 2 : 1;
    KW_TRY(check_flat(kName, "state", state, param, KW_UINT8, twice * count, true));
    KW_TRY(check_flat(kName, "absmax", scale, param, KW_FLOAT32, twice * ratio_up(count, kStateBlock), true));
    KW_TRY(check_flat(kName, "map", map, param, KW_FLOAT32, 256, true));
    codes[i] = static_cast<uint8_t*>(state.data);
    scales[i] = static_cast<float*>(scale.data);
    maps[i] = static_cast<const float*>(map.data);
  }
  return kw_optimizer_update_8bit_blockwise(param.device, call.stream(), param.data, call.tensor(1)->data, codes[0],
                                            codes[1], scales[0], scales[1], maps[0], maps[1], &step, count,
                                            param.dtype);
}

kw_status optimizer_update_8bit_blockwise(Call& call) { return update(call, false); }
kw_status optimizer_update_8bit_blockwise_one_state(Call& call) { return update(call, true); }

KW_TORCH(optimizer_update_8bit_blockwise, "optimizer_update_8bit_blockwise",
         "(Tensor(a!) param, Tensor grad, Tensor(b!) state1, Tensor(c!) state2, Tensor(d!) absmax1, "
         "Tensor(e!) absmax2, Tensor map1, Tensor map2, " KW_STEP)
KW_TORCH(optimizer_update_8bit_blockwise_one_state, "optimizer_update_8bit_blockwise.one_state",
         "(Tensor(a!) param, Tensor grad, Tensor(b!) state1, Tensor(c!) absmax1, Tensor map1, " KW_STEP)

}  // namespace
}  // namespace kw::torch
