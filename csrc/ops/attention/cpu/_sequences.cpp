// SPDX-License-Identifier: MIT
// Where sequences begin, checked: on the CPU a wrong beginning can still be refused. Every operator of sequences asks,
// and so does the derivative that they share.
#include "core/error.h"
#include "cpu/simd.h"
#include "ops/attention/cpu/problem_of.h"

namespace kw::cpu {

#if KW_CPU_BASELINE

namespace {

kw_status check_starts(const char* name, const int32_t* starts, int64_t count, int64_t total) {
  for (int64_t i = 0; i <= count; ++i) {
    if (starts[i] < 0 || starts[i] > total || (i > 0 && starts[i] < starts[i - 1]))
      return fail(KW_ERROR_INVALID_ARGUMENT,
                  "kw_attention_varlen: element %lld of %s is %d; they must not fall, and be from 0 to the %lld rows",
                  (long long)i, name, starts[i], (long long)total);
  }
  return KW_OK;
}

}  // namespace

kw_status check_sequences(const Attention& a) {
  if (a.starts_q == nullptr) return KW_OK;
  KW_TRY(check_starts("cu_seqlens_q", a.starts_q, a.batch, a.total_q));
  return check_starts("cu_seqlens_k", a.starts_k, a.batch, a.total_k);
}

#endif

}  // namespace kw::cpu
