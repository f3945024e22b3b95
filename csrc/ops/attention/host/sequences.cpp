// SPDX-License-Identifier: MIT
// kw_attention_varlen_tensors: checks its arguments, then runs.
#include "ops/attention/api/attention_varlen.h"

#include "ops/attention/host/checks.h"
#include "ops/attention/host/launch.h"

KW_API kw_status kw_attention_varlen_tensors(void* stream, const kw_tensor* out, const kw_tensor* lse,
                                             const kw_tensor* q, const kw_tensor* k, const kw_tensor* v,
                                             const kw_tensor* cu_seqlens_q, const kw_tensor* cu_seqlens_k,
                                             const kw_tensor* sinks, const kw_tensor* alibi_slopes, int64_t max_q,
                                             int64_t max_k, int32_t causal, int64_t window_left, int64_t window_right,
                                             double scale, double softcap) {
  constexpr const char* kName = "kw_attention_varlen_tensors";
  if (cu_seqlens_q == nullptr || cu_seqlens_k == nullptr)
    return kw::fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s is NULL", kName,
                    cu_seqlens_q == nullptr ? "cu_seqlens_q" : "cu_seqlens_k");
  const kw::attention_checks::Tensors from = {out,          lse,          q,           k, v, nullptr, nullptr, sinks,
                                              alibi_slopes, cu_seqlens_q, cu_seqlens_k};
  const kw::attention_checks::Options options = {causal, window_left, window_right, scale, softcap, max_q, max_k};
  kw::Attention a{};
  int32_t device = KW_CPU;
  KW_TRY(kw::attention_checks::read(kName, from, options, &a, &device));
  return kw::run_attention(kName, device, stream, a);
}
