// SPDX-License-Identifier: MIT
// kw_optimizer_update_8bit_blockwise and its like for many tensors: check their arguments, then run on the CPU or
// launch csrc/ops/optim/optimizer_update_8bit_blockwise.cu.
#include "ops/optim/api/optimizer_update_8bit_blockwise.h"

#include "ops/optim/host/optimizer_launch.h"

namespace kw {
namespace {

Module module{"optimizer_update_8bit_blockwise"};
Kernel kernels[3] = {{"optimizer_update_8bit_blockwise_one_state"},
                     {"optimizer_update_8bit_blockwise_two_states"},
                     {"optimizer_update_8bit_blockwise_three_states"}};
const optimizer::Launcher launcher{&module, kernels};

kw_status run(const char* name, int32_t device, void* stream, const OptimizerStep& step) {
  KW_TRY(optimizer::check(name, device, true, step));
  if (device == KW_CPU) return cpu::optimizer_update_8bit_blockwise(step);
  return optimizer::run_on_device(launcher, device, stream, true, step);
}

}  // namespace
}  // namespace kw

KW_API kw_status kw_optimizer_update_8bit_blockwise(int32_t device, void* stream, void* param, const void* grad,
                                                    uint8_t* state1, uint8_t* state2, float* absmax1, float* absmax2,
                                                    const float* map1, const float* map2, const kw_optimizer* optimizer,
                                                    int64_t count, int32_t dtype) {
  const kw_optimizer_tensor tensor{param, grad, state1, state2, absmax1, absmax2, count};
  return kw::run("kw_optimizer_update_8bit_blockwise", device, stream, {&tensor, 1, map1, map2, optimizer, dtype});
}

KW_API kw_status kw_optimizer_update_8bit_blockwise_many(int32_t device, void* stream,
                                                         const kw_optimizer_tensor* tensors, int64_t number,
                                                         const float* map1, const float* map2,
                                                         const kw_optimizer* optimizer, int32_t dtype) {
  return kw::run("kw_optimizer_update_8bit_blockwise_many", device, stream,
                 {tensors, number, map1, map2, optimizer, dtype});
}

KW_API kw_status kw_optimizer_update_8bit_blockwise_moving(int32_t device, void* stream,
                                                           const kw_optimizer_tensor* tensors, int64_t number,
                                                           const float* map1, const float* map2, const void* moving,
                                                           const kw_optimizer* optimizer, int32_t dtype) {
  constexpr const char* kName = "kw_optimizer_update_8bit_blockwise_moving";
  KW_TRY(kw::blockwise::check_pointer(kName, "moving", moving, 8));
  return kw::run(kName, device, stream, {tensors, number, map1, map2, optimizer, dtype, moving});
}
