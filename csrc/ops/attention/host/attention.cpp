// SPDX-License-Identifier: MIT
// kw_attention and kw_attention_tensors: check their arguments, then run.
#include "ops/attention/api/attention.h"

#include "ops/attention/host/checks.h"
#include "ops/attention/host/launch.h"

namespace kw {
namespace {

using namespace attention_checks;

HeadTensor dense(const void* data, int64_t heads, int64_t rows, int64_t d) {
  return {const_cast<void*>(data), heads * rows * d, rows * d, d};
}

kw_status check_arrays(const char* name, const Attention& a) {
  const int64_t sizes[] = {a.batch, a.heads, a.kv_heads, a.queries, a.keys};
  const char* const names[] = {"batch", "heads", "kv_heads", "queries", "keys"};
  for (int i = 0; i < 5; ++i) KW_TRY(check_size(name, names[i], sizes[i]));
  KW_TRY(check_array(name, "q", a.q.data, a.queries, a.batch, a.heads, a.d, a.dtype));
  KW_TRY(check_array(name, "k", a.k.data, a.keys, a.batch, a.kv_heads, a.d, a.dtype));
  KW_TRY(check_array(name, "v", a.v.data, a.keys, a.batch, a.kv_heads, a.d_v, a.dtype));
  KW_TRY(check_array(name, "out", a.out.data, a.queries, a.batch, a.heads, a.d_v, a.dtype));
  if (a.lse != nullptr) KW_TRY(check_pointer(name, "lse", a.lse, 4));
  return a.sinks == nullptr ? KW_OK : check_pointer(name, "sinks", a.sinks, 4);
}

}  // namespace
}  // namespace kw

KW_API kw_status kw_attention_tensors(void* stream, const kw_tensor* out, const kw_tensor* lse, const kw_tensor* q,
                                      const kw_tensor* k, const kw_tensor* v, const kw_tensor* mask,
                                      const kw_tensor* bias, const kw_tensor* sinks, const kw_tensor* alibi_slopes,
                                      int32_t causal, int64_t window_left, int64_t window_right, double scale,
                                      double softcap) {
  constexpr const char* kName = "kw_attention_tensors";
  const kw::attention_checks::Tensors from = {out, lse, q, k, v, mask, bias, sinks, alibi_slopes, nullptr, nullptr};
  const kw::attention_checks::Options options = {causal, window_left, window_right, scale, softcap, 0, 0};
  kw::Attention a{};
  int32_t device = KW_CPU;
  KW_TRY(kw::attention_checks::read(kName, from, options, &a, &device));
  return kw::run_attention(kName, device, stream, a);
}

KW_API kw_status kw_attention(int32_t device, void* stream, void* out, float* lse, const void* q, const void* k,
                              const void* v, const float* sinks, int64_t batch, int64_t heads, int64_t kv_heads,
                              int64_t queries, int64_t keys, int64_t d, int64_t d_v, int32_t dtype, int32_t causal,
                              int64_t window_left, int64_t window_right, double scale, double softcap) {
  constexpr const char* kName = "kw_attention";
  kw::Attention a{};
  a.batch = batch, a.heads = heads, a.kv_heads = kv_heads, a.queries = queries, a.keys = keys, a.d = d, a.d_v = d_v;
  a.total_q = queries, a.total_k = keys, a.dtype = dtype;
  a.lse = lse, a.sinks = sinks;
  KW_TRY(kw::check_device(kName, device));
  KW_TRY(kw::attention_checks::check_numbers(kName, {causal, window_left, window_right, scale, softcap, 0, 0}, &a));
  a.q.data = const_cast<void*>(q), a.k.data = const_cast<void*>(k), a.v.data = const_cast<void*>(v), a.out.data = out;
  KW_TRY(kw::check_arrays(kName, a));
  a.q = kw::dense(q, heads, queries, d), a.k = kw::dense(k, kv_heads, keys, d), a.v = kw::dense(v, kv_heads, keys, d_v);
  a.out = kw::dense(out, heads, queries, d_v);
  a.lse_head = queries, a.lse_batch = heads * queries;
  return kw::run_attention(kName, device, stream, a);
}
