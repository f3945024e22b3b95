// SPDX-License-Identifier: MIT
// A step of an optimizer with states of 8-bit codes.
#include "ops/optim/cpu/optimizer.h"

namespace kw::cpu {

KW_CPU_RANGE(optimizer_8bit_blocks)

namespace KW_ISA {
void optimizer_8bit_blocks(const void* context, int64_t begin, int64_t end) { update_any<true>(context, begin, end); }
}  // namespace KW_ISA

#if KW_CPU_BASELINE
kw_status optimizer_update_8bit_blockwise(const OptimizerStep& step) {
  const KwOptimizerParams numbers = optimizer_numbers(step);
  const int64_t blocks = optimizer_blocks(step);
  if (blocks == 0) return KW_OK;
  CodeTable tables[2];
  const bool second = optimizer::states_of(step.optimizer->rule) > 1;
  KW_ISA::fill_table(step.map1, blocks * optimizer::kBlock, &tables[0]);
  if (second) KW_ISA::fill_table(step.map2, blocks * optimizer::kBlock, &tables[1]);
  const OptimizerJob job{step, numbers, {&tables[0], &tables[1]}};
  parallel_for(blocks, 8, picked_optimizer_8bit_blocks(), &job);
  return KW_OK;
}
#endif

}  // namespace kw::cpu
