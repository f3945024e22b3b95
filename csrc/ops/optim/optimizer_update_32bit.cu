// SPDX-License-Identifier: MIT
// A step of an optimizer with states of 32 bits.
#include "ops/optim/device/optimizer.cuh"

// The names are the launcher's: optimizer_update_32bit_<states>.
#define KW_KERNEL(name, states, blocks)                                            \
  extern "C" __global__ void __launch_bounds__(kw::kOptimizerThreads, kw::blocks)  \
      optimizer_update_32bit_##name(const __grid_constant__ KwOptimizerParams p) { \
    kw::allow_next_kernel();                                                       \
    kw::wait_for_previous_kernel();                                                \
    kw::optimizer_run<kw::WideStates, states>(p, kw::WideStates());                \
  }

KW_KERNEL(one_state, 1, kOptimizerBlocksOfOne)
KW_KERNEL(two_states, 2, kOptimizerBlocksOfTwo)
KW_KERNEL(three_states, 3, kOptimizerBlocksOfThree)

extern "C" __global__ void __launch_bounds__(kw::kAdvanceThreads)
    optimizer_update_32bit_advance(const __grid_constant__ KwOptimizerAdvanceParams p) {
  kw::wait_for_previous_kernel();
  if (threadIdx.x == 0) kw::optimizer_advance(p);
}
