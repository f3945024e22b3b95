// SPDX-License-Identifier: MIT
// The derivatives of attention: checks arguments, then runs.
#include "ops/attention/host/backward.h"

#include "ops/attention/api/attention.h"
#include "ops/attention/api/attention_varlen.h"
#include "ops/attention/host/checks.h"

namespace kw {
namespace {

using namespace attention_checks;

struct Gradients {
  const kw_tensor *dq, *dk, *dv, *dsinks, *dout;
  void* workspace;
  int64_t workspace_bytes;
  int32_t deterministic;
};

kw_status read_sinks(const char* name, const kw_tensor* tensor, AttentionBackward* b, int32_t device) {
  kw_tensor t;
  if (tensor == nullptr) return KW_OK;
  KW_TRY(read_tensor(name, "dsinks", tensor, &t));
  const bool right = t.dims == 1 && t.dtype == KW_FLOAT32 && t.device == device && t.sizes[0] == b->of.heads &&
                     (t.strides[0] == 1 || t.sizes[0] <= 1) && (t.data != nullptr || t.sizes[0] == 0);
  if (!right || b->of.sinks == nullptr)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: dsinks must be %lld contiguous elements of float32, where sinks are",
                name, (long long)b->of.heads);
  b->dsinks = static_cast<float*>(t.data);
  return KW_OK;
}

kw_status run(const char* name, void* stream, const Tensors& from, const Options& options, const Gradients& g) {
  AttentionBackward b{};
  int32_t device = KW_CPU;
  KW_TRY(read(name, from, options, &b.of, &device));
  KW_TRY(read_beside(name, "dout", g.dout, from.q, b.of.d_v, &b.dout));
  KW_TRY(read_beside(name, "dq", g.dq, from.q, b.of.d, &b.dq));
  KW_TRY(read_beside(name, "dk", g.dk, from.k, b.of.d, &b.dk));
  KW_TRY(read_beside(name, "dv", g.dv, from.v, b.of.d_v, &b.dv));
  KW_TRY(read_sinks(name, g.dsinks, &b, device));
  if (b.of.lse == nullptr && b.of.queries > 0 && b.of.batch > 0 && b.of.heads > 0)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: lse is NULL", name);
  const BackwardSizes of = {b.of.batch,          b.of.heads, b.of.total_q, b.of.d, b.of.d_v, b.of.starts_q != nullptr,
                            g.deterministic != 0};
  int64_t needed = 0;
  const bool any = b.of.heads > 0 && b.of.batch > 0;
  if (any && device != KW_CPU) KW_TRY(backward_workspace(name, device, of, &needed));
  if (needed > 0 &&
      (g.workspace == nullptr || g.workspace_bytes < needed || reinterpret_cast<uintptr_t>(g.workspace) % 16 != 0))
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: workspace is %lld bytes at %p; it must be %lld on a multiple of 16",
                name, (long long)g.workspace_bytes, g.workspace, (long long)needed);
  b.workspace = g.workspace, b.workspace_bytes = g.workspace_bytes, b.deterministic = g.deterministic != 0;
  if (!any) return KW_OK;
  if (device == KW_CPU) return cpu::attention_backward(b);
  if (b.of.dtype == KW_FLOAT32)
    return fail(KW_ERROR_UNSUPPORTED, "%s: float32 is computed on the CPU alone; give a GPU float16 or bfloat16", name);
  return launch_attention_backward(name, device, stream, b);
}

kw_status workspace(const char* name, int32_t device, BackwardSizes of, int64_t* bytes) {
  KW_TRY(check_device(name, device));
  const int64_t sizes[] = {of.batch, of.heads, of.rows, of.d, of.d_v};
  const char* const names[] = {"batch", "heads", of.sequences ? "total_q" : "queries", "d", "d_v"};
  for (int i = 0; i < 5; ++i) KW_TRY(check_size(name, names[i], sizes[i]));
  int64_t count = 0;
  const int64_t d = of.d > of.d_v ? of.d : of.d_v;
  if (__builtin_mul_overflow(of.heads, of.sequences ? 1 : of.batch, &count) ||
      __builtin_mul_overflow(count, of.rows, &count) || __builtin_mul_overflow(count, d + 1, &count) ||
      count > kMaxElements || of.batch > kMostRows)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: no memory holds so many rows", name);
  if (bytes == nullptr) return fail(KW_ERROR_INVALID_ARGUMENT, "%s: bytes is NULL", name);
  *bytes = 0;
  return device == KW_CPU ? KW_OK : backward_workspace(name, device, of, bytes);
}

}  // namespace
}  // namespace kw

KW_API kw_status kw_attention_backward_workspace(int32_t device, int64_t batch, int64_t heads, int64_t queries,
                                                 int64_t d, int64_t d_v, int32_t deterministic, int64_t* bytes) {
  return kw::workspace("kw_attention_backward_workspace", device,
                       {batch, heads, queries, d, d_v, false, deterministic != 0}, bytes);
}

KW_API kw_status kw_attention_varlen_backward_workspace(int32_t device, int64_t batch, int64_t heads, int64_t total_q,
                                                        int64_t d, int64_t d_v, int32_t deterministic, int64_t* bytes) {
  return kw::workspace("kw_attention_varlen_backward_workspace", device,
                       {batch, heads, total_q, d, d_v, true, deterministic != 0}, bytes);
}

KW_API kw_status kw_attention_backward_tensors(void* stream, const kw_tensor* dq, const kw_tensor* dk,
                                               const kw_tensor* dv, const kw_tensor* dsinks, const kw_tensor* dout,
                                               const kw_tensor* q, const kw_tensor* k, const kw_tensor* v,
                                               const kw_tensor* out, const kw_tensor* lse, const kw_tensor* mask,
                                               const kw_tensor* bias, const kw_tensor* sinks,
                                               const kw_tensor* alibi_slopes, void* workspace, int64_t workspace_bytes,
                                               int32_t causal, int64_t window_left, int64_t window_right,
                                               int32_t deterministic, double scale, double softcap) {
  return kw::run("kw_attention_backward_tensors", stream,
                 {out, lse, q, k, v, mask, bias, sinks, alibi_slopes, nullptr, nullptr},
                 {causal, window_left, window_right, scale, softcap, 0, 0},
                 {dq, dk, dv, dsinks, dout, workspace, workspace_bytes, deterministic});
}

KW_API kw_status kw_attention_varlen_backward_tensors(
    void* stream, const kw_tensor* dq, const kw_tensor* dk, const kw_tensor* dv, const kw_tensor* dsinks,
    const kw_tensor* dout, const kw_tensor* q, const kw_tensor* k, const kw_tensor* v, const kw_tensor* out,
    const kw_tensor* lse, const kw_tensor* cu_seqlens_q, const kw_tensor* cu_seqlens_k, const kw_tensor* sinks,
    const kw_tensor* alibi_slopes, void* workspace, int64_t workspace_bytes, int64_t max_q, int64_t max_k,
    int32_t causal, int64_t window_left, int64_t window_right, int32_t deterministic, double scale, double softcap) {
  constexpr const char* kName = "kw_attention_varlen_backward_tensors";
  if (cu_seqlens_q == nullptr || cu_seqlens_k == nullptr)
    return kw::fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s is NULL", kName,
                    cu_seqlens_q == nullptr ? "cu_seqlens_q" : "cu_seqlens_k");
  return kw::run(kName, stream, {out, lse, q, k, v, nullptr, nullptr, sinks, alibi_slopes, cu_seqlens_q, cu_seqlens_k},
                 {causal, window_left, window_right, scale, softcap, max_q, max_k},
                 {dq, dk, dv, dsinks, dout, workspace, workspace_bytes, deterministic});
}
