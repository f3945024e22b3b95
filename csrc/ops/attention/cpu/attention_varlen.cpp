// SPDX-License-Identifier: MIT
// Attention of sequences on the CPU is that of batches, once it is known that they lie in their tensors.
#include "core/error.h"
#include "cpu/simd.h"
#include "ops/attention/cpu/problem_of.h"

namespace kw::cpu {

#if KW_CPU_BASELINE

kw_status attention_varlen(const Attention& args) {
  KW_TRY(check_sequences(args));
  return attention(args);
}

#endif

}  // namespace kw::cpu
