// SPDX-License-Identifier: MIT
// kw_optimizer_update_32bit and its like for many tensors: check their arguments, then run on the CPU or launch
// csrc/ops/optim/optimizer_update_32bit.cu.
#include "ops/optim/api/optimizer_update_32bit.h"

#include "ops/optim/host/optimizer_launch.h"
#include "ops/optim/numbers.h"

namespace kw {
namespace {

Module module{"optimizer_update_32bit"};
Kernel kernels[3] = {{"optimizer_update_32bit_one_state"},
                     {"optimizer_update_32bit_two_states"},
                     {"optimizer_update_32bit_three_states"}};
Kernel advancing{"optimizer_update_32bit_advance"};
const optimizer::Launcher launcher{&module, kernels};

kw_status run(const char* name, int32_t device, void* stream, const OptimizerStep& step) {
  KW_TRY(optimizer::check(name, device, false, step));
  if (device == KW_CPU) return cpu::optimizer_update_32bit(step);
  return optimizer::run_on_device(launcher, device, stream, false, step);
}

struct Given {  // where numbers of a step lie, or nullptr
  const double *lr, *alpha, *beta3;
};

void advance_on_cpu(KwOptimizerMoving& moving, KwOptimizerStep step, const Given& given) {
  step.step = optimizer_step_number(step.step, moving.taken);
  if (given.lr != nullptr) step.lr = *given.lr;
  if (given.alpha != nullptr) step.alpha = *given.alpha;
  if (given.beta3 != nullptr) step.beta3 = *given.beta3;
  moving.moves = optimizer_moves(step);
  moving.taken = optimizer_step_number(moving.taken, 1);
}

kw_status advance(int32_t device, void* stream, void* moving, const Given& given, const kw_optimizer* optimizer) {
  constexpr const char* kName = "kw_optimizer_advance";
  using blockwise::bytes_of;
  using blockwise::check_pointer;
  KW_TRY(blockwise::check_device(kName, device));
  KW_TRY(check_pointer(kName, "moving", moving, 8));
  if (given.lr != nullptr) KW_TRY(check_pointer(kName, "lr", given.lr, 8));
  if (given.alpha != nullptr) KW_TRY(check_pointer(kName, "alpha", given.alpha, 8));
  if (given.beta3 != nullptr) KW_TRY(check_pointer(kName, "beta3", given.beta3, 8));
  KW_TRY(optimizer::check_optimizer(kName, optimizer));
  const KwOptimizerStep step = optimizer::step_of(*optimizer);
  if (device == KW_CPU) {
    advance_on_cpu(*static_cast<KwOptimizerMoving*>(moving), step, given);
    return KW_OK;
  }
  Context context;
  KW_TRY(module_context(module, device, &context));
  const KwOptimizerAdvanceParams p{bytes_of(moving), bytes_of(given.lr), bytes_of(given.alpha), bytes_of(given.beta3),
                                   step};
  return launch(context, advancing, Launch{1, kAdvanceThreads}, stream, &p, sizeof p);
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

KW_API kw_status kw_optimizer_advance(int32_t device, void* stream, void* moving, const double* lr, const double* alpha,
                                      const double* beta3, const kw_optimizer* optimizer) {
  return kw::advance(device, stream, moving, {lr, alpha, beta3}, optimizer);
}

KW_API kw_status kw_optimizer_update_32bit_moving(int32_t device, void* stream, const kw_optimizer_tensor* tensors,
                                                  int64_t number, const void* moving, const kw_optimizer* optimizer,
                                                  int32_t dtype) {
  constexpr const char* kName = "kw_optimizer_update_32bit_moving";
  KW_TRY(kw::blockwise::check_pointer(kName, "moving", moving, 8));
  return kw::run(kName, device, stream, {tensors, number, nullptr, nullptr, optimizer, dtype, moving});
}
