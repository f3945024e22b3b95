// SPDX-License-Identifier: MIT
// A step of an optimizer with states of 8-bit codes, in blocks of 256.
#include "ops/optim/device/optimizer.cuh"

// The names are the launcher's: optimizer_update_8bit_blockwise_<states>.
#define KW_KERNEL(name, states, blocks)                                                     \
  extern "C" __global__ void __launch_bounds__(kw::kOptimizerThreads, kw::blocks)           \
      optimizer_update_8bit_blockwise_##name(const __grid_constant__ KwOptimizerParams p) { \
    __shared__ kw::CodedStates::Shared memory;                                              \
    kw::allow_next_kernel();                                                                \
    kw::wait_for_previous_kernel();                                                         \
    kw::optimizer_run<kw::CodedStates, states>(p, kw::CodedStates(p, memory));              \
  }

KW_KERNEL(one_state, 1, kOptimizerBlocksOfOne)
KW_KERNEL(two_states, 2, kOptimizerBlocksOfTwo)
KW_KERNEL(three_states, 3, kOptimizerBlocksOfThree)
