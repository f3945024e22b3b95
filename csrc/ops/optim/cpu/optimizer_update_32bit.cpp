// SPDX-License-Identifier: MIT
// A step of an optimizer with states of 32 bits.
#include "ops/optim/cpu/optimizer.h"

namespace kw::cpu {

KW_CPU_RANGE(optimizer_32bit_blocks)

namespace KW_ISA {
void optimizer_32bit_blocks(const void* context, int64_t begin, int64_t end) { update_any<false>(context, begin, end); }
}  // namespace KW_ISA

#if KW_CPU_BASELINE
kw_status optimizer_update_32bit(const OptimizerStep& step) {
  const KwOptimizerParams numbers = optimizer_numbers(step);
  const OptimizerJob job{step, numbers, {nullptr, nullptr}};
  parallel_for(optimizer_blocks(step), 32, picked_optimizer_32bit_blocks(), &job);
  return KW_OK;
}
#endif

}  // namespace kw::cpu
