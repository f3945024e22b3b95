// SPDX-License-Identifier: MIT
// kw_attention_varlen and kw_attention_varlen_tensors: check their arguments, then run.
#include "ops/attention/api/attention_varlen.h"

#include "ops/attention/host/checks.h"
#include "ops/attention/host/launch.h"

namespace kw {
namespace {

using namespace attention_checks;

HeadTensor packed_rows(const void* data, int64_t heads, int64_t d) {
  return {const_cast<void*>(data), 0, d, heads * d};
}

kw_status check_arrays(const char* name, const Attention& a, int64_t max_q, int64_t max_k) {
  const int64_t sizes[] = {a.batch, a.heads, a.kv_heads, a.total_q, a.total_k, max_q, max_k};
  const char* const names[] = {"batch", "heads", "kv_heads", "total_q", "total_k", "max_q", "max_k"};
  for (int i = 0; i < 7; ++i) KW_TRY(check_size(name, names[i], sizes[i]));
  KW_TRY(check_array(name, "q", a.q.data, a.total_q, 1, a.heads, a.d, a.dtype));
  KW_TRY(check_array(name, "k", a.k.data, a.total_k, 1, a.kv_heads, a.d, a.dtype));
  KW_TRY(check_array(name, "v", a.v.data, a.total_k, 1, a.kv_heads, a.d_v, a.dtype));
  KW_TRY(check_array(name, "out", a.out.data, a.total_q, 1, a.heads, a.d_v, a.dtype));
  KW_TRY(check_pointer(name, "cu_seqlens_q", a.starts_q, 4));
  KW_TRY(check_pointer(name, "cu_seqlens_k", a.starts_k, 4));
  if (a.lse != nullptr) KW_TRY(check_pointer(name, "lse", a.lse, 4));
  return a.sinks == nullptr ? KW_OK : check_pointer(name, "sinks", a.sinks, 4);
}

// The CPU sees where sequences begin, and refuses what does not lie in its tensors.
kw_status run_sequences(const char* name, int32_t device, void* stream, const Attention& a) {
  const bool any = a.batch > 0 && a.heads > 0 && a.queries > 0;
  return any && device == KW_CPU ? cpu::attention_varlen(a) : run_attention(name, device, stream, a);
}

}  // namespace
}  // namespace kw

KW_API kw_status kw_attention_varlen(int32_t device, void* stream, void* out, float* lse, const void* q, const void* k,
                                     const void* v, const int32_t* cu_seqlens_q, const int32_t* cu_seqlens_k,
                                     const float* sinks, int64_t batch, int64_t heads, int64_t kv_heads,
                                     int64_t total_q, int64_t total_k, int64_t max_q, int64_t max_k, int64_t d,
                                     int64_t d_v, int32_t dtype, int32_t causal, int64_t window_left,
                                     int64_t window_right, double scale, double softcap) {
  constexpr const char* kName = "kw_attention_varlen";
  kw::Attention a{};
  a.batch = batch, a.heads = heads, a.kv_heads = kv_heads, a.d = d, a.d_v = d_v, a.dtype = dtype;
  a.total_q = total_q, a.total_k = total_k;
  a.queries = max_q < total_q ? max_q : total_q, a.keys = max_k < total_k ? max_k : total_k;
  a.lse = lse, a.sinks = sinks, a.starts_q = cu_seqlens_q, a.starts_k = cu_seqlens_k;
  KW_TRY(kw::check_device(kName, device));
  KW_TRY(kw::attention_checks::check_numbers(kName, {causal, window_left, window_right, scale, softcap, max_q, max_k},
                                             &a));
  a.q.data = const_cast<void*>(q), a.k.data = const_cast<void*>(k), a.v.data = const_cast<void*>(v), a.out.data = out;
  KW_TRY(kw::check_arrays(kName, a, max_q, max_k));
  a.q = kw::packed_rows(q, heads, d), a.k = kw::packed_rows(k, kv_heads, d), a.v = kw::packed_rows(v, kv_heads, d_v);
  a.out = kw::packed_rows(out, heads, d_v);
  a.lse_head = total_q;
  return kw::run_sequences(kName, device, stream, a);
}

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
  return kw::run_sequences(kName, device, stream, a);
}
