// SPDX-License-Identifier: MIT
// kw_optimizer_update_32bit and its like for many tensors: check their arguments, then run on the CPU or launch
// csrc/ops/optim/optimizer_update_32bit.cu.
#include "ops/optim/api/optimizer_update_32bit.h"

#include "ops/optim/host/optimizer_launch.h"

namespace kw {
namespace {

Module module{"optimizer_update_32bit"};
Kernel kernels[3] = {{"optimizer_update_32bit_one_state"},
                     {"optimizer_update_32bit_two_states"},
                     {"optimizer_update_32bit_three_states"}};
const optimizer::Launcher launcher{&module, kernels, 4};

kw_status run(const char* name, int32_t device, void* stream, const OptimizerStep& step) {
  KW_TRY(optimizer::check(name, device, false, step));
  if (device == KW_CPU) return cpu::optimizer_update_32bit(step);
  return optimizer::run_on_device(launcher, device, stream, false, step);
}

}  // namespace
}  // namespace kw

KW_API kw_status kw_optimizer_update_32bit(int32_t device, void* stream, void* param, const void* grad, float* state1,
                                           float* state2, const kw_optimizer* optimizer, int64_t count, int32_t dtype) {
  const kw_optimizer_tensor tensor{param, grad, state1, state2, nullptr, nullptr, count};
  return kw::run("kw_optimizer_update_32bit", device, stream, {&tensor, 1, nullptr, nullptr, optimizer, dtype});
}

KW_API kw_status kw_optimizer_update_32bit_many(int32_t device, void* stream, const kw_optimizer_tensor* tensors,
                                                int64_t number, const kw_optimizer* optimizer, int32_t dtype) {
  return kw::run("kw_optimizer_update_32bit_many", device, stream,
                 {tensors, number, nullptr, nullptr, optimizer, dtype});
}
