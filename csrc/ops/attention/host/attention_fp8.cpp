// SPDX-License-Identifier: MIT
// kw_attention_fp8 and kw_attention_fp8_tensors: check their arguments, then run.
#include "ops/attention/host/attention_fp8.h"

#include "ops/attention/api/attention_fp8.h"
#include "ops/attention/host/checks.h"
#include "ops/attention/host/reader.h"

namespace kw {
namespace {

using namespace attention_checks;

struct Fp8Tensors {
  const kw_tensor *out, *lse, *q, *k, *v, *q_scale, *k_scale, *v_scale;
};

kw_status read_scales(const Reader& r, const char* argument, const kw_tensor* tensor, int64_t batch, int64_t heads,
                      HeadScales* to) {
  if (tensor == nullptr) return KW_OK;
  kw_tensor found;
  const int64_t sizes[] = {batch, heads};
  KW_TRY(r.read(argument, tensor, KW_FLOAT32, 2, sizes, &found, false));
  *to = {static_cast<const float*>(found.data), found.strides[0], found.strides[1]};
  return KW_OK;
}

kw_status read_results(const Reader& r, const Fp8Tensors& from, Attention* of) {
  kw_tensor found;
  KW_TRY(read_tensor(r.name, "out", from.out, &found));
  of->dtype = found.dtype;
  KW_TRY(check_float_type(r.name, of->dtype));
  const Reader results = {r.name, of->dtype, r.device};
  KW_TRY(results.heads("out", from.out, of->batch, of->heads, of->queries, of->d_v, &found, &of->out));
  if (from.lse == nullptr) return KW_OK;
  const int64_t sizes[] = {of->batch, of->heads, of->queries};
  KW_TRY(r.read("lse", from.lse, KW_FLOAT32, 3, sizes, &found));
  of->lse = static_cast<float*>(found.data);
  of->lse_batch = found.strides[0], of->lse_head = found.strides[1];
  return KW_OK;
}

kw_status read_fp8(const char* name, const Fp8Tensors& from, AttentionFp8* a, int32_t* device) {
  Attention& of = a->of;
  kw_tensor q, k, v;
  KW_TRY(read_tensor(name, "q", from.q, &q));
  *device = q.device;
  const Reader r = {name, KW_FLOAT8_E4M3FN, q.device};
  KW_TRY(r.heads("q", from.q, kAny, kAny, kAny, kAny, &q, &of.q));
  of.batch = q.sizes[0], of.heads = q.sizes[1], of.queries = of.total_q = q.sizes[2], of.d = q.sizes[3];
  KW_TRY(r.heads("k", from.k, of.batch, kAny, kAny, of.d, &k, &of.k));
  of.kv_heads = k.sizes[1], of.keys = of.total_k = k.sizes[2];
  KW_TRY(r.heads("v", from.v, of.batch, of.kv_heads, of.keys, kAny, &v, &of.v));
  of.d_v = v.sizes[3];
  KW_TRY(read_scales(r, "q_scale", from.q_scale, of.batch, of.heads, &a->q_scale));
  KW_TRY(read_scales(r, "k_scale", from.k_scale, of.batch, of.kv_heads, &a->k_scale));
  KW_TRY(read_scales(r, "v_scale", from.v_scale, of.batch, of.kv_heads, &a->v_scale));
  return read_results(r, from, &of);
}

HeadTensor dense_heads(const void* data, int64_t heads, int64_t rows, int64_t d) {
  return {const_cast<void*>(data), heads * rows * d, rows * d, d};
}

HeadScales dense_scales(const float* data, int32_t per_head, int64_t heads) {
  if (per_head == 0) return {data, 0, 0};
  return {data, heads, 1};
}

kw_status check_arrays(const char* name, const AttentionFp8& a) {
  const Attention& of = a.of;
  const int64_t sizes[] = {of.batch, of.heads, of.kv_heads, of.queries, of.keys};
  const char* const names[] = {"batch", "heads", "kv_heads", "queries", "keys"};
  for (int i = 0; i < 5; ++i) KW_TRY(check_size(name, names[i], sizes[i]));
  KW_TRY(check_array(name, "q", of.q.data, of.queries, of.batch, of.heads, of.d, KW_FLOAT8_E4M3FN));
  KW_TRY(check_array(name, "k", of.k.data, of.keys, of.batch, of.kv_heads, of.d, KW_FLOAT8_E4M3FN));
  KW_TRY(check_array(name, "v", of.v.data, of.keys, of.batch, of.kv_heads, of.d_v, KW_FLOAT8_E4M3FN));
  KW_TRY(check_array(name, "out", of.out.data, of.queries, of.batch, of.heads, of.d_v, of.dtype));
  const float* const numbers[] = {of.lse, a.q_scale.data, a.k_scale.data, a.v_scale.data};
  const char* const arguments[] = {"lse", "q_scale", "k_scale", "v_scale"};
  for (int i = 0; i < 4; ++i)
    if (numbers[i] != nullptr) KW_TRY(check_pointer(name, arguments[i], numbers[i], 4));
  return KW_OK;
}

kw_status run(const char* name, int32_t device, void* stream, const AttentionFp8& a) {
  if (a.of.batch == 0 || a.of.heads == 0 || a.of.queries == 0) return KW_OK;
  return device == KW_CPU ? cpu::attention_fp8(a) : launch_attention_fp8(name, device, stream, a);
}

}  // namespace
}  // namespace kw

KW_API kw_status kw_attention_fp8_tensors(void* stream, const kw_tensor* out, const kw_tensor* lse, const kw_tensor* q,
                                          const kw_tensor* k, const kw_tensor* v, const kw_tensor* q_scale,
                                          const kw_tensor* k_scale, const kw_tensor* v_scale, int32_t causal,
                                          int64_t window_left, int64_t window_right, double scale) {
  constexpr const char* kName = "kw_attention_fp8_tensors";
  kw::AttentionFp8 a{};
  int32_t device = KW_CPU;
  KW_TRY(kw::read_fp8(kName, {out, lse, q, k, v, q_scale, k_scale, v_scale}, &a, &device));
  KW_TRY(kw::attention_checks::check_numbers(kName, {causal, window_left, window_right, scale, 0.0, 0, 0}, &a.of));
  return kw::run(kName, device, stream, a);
}

KW_API kw_status kw_attention_fp8(int32_t device, void* stream, void* out, float* lse, const void* q, const void* k,
                                  const void* v, const float* q_scale, const float* k_scale, const float* v_scale,
                                  int32_t per_head, int64_t batch, int64_t heads, int64_t kv_heads, int64_t queries,
                                  int64_t keys, int64_t d, int64_t d_v, int32_t dtype, int32_t causal,
                                  int64_t window_left, int64_t window_right, double scale) {
  constexpr const char* kName = "kw_attention_fp8";
  kw::AttentionFp8 a{};
  kw::Attention& of = a.of;
  of.batch = batch, of.heads = heads, of.kv_heads = kv_heads, of.d = d, of.d_v = d_v, of.dtype = dtype;
  of.queries = of.total_q = queries, of.keys = of.total_k = keys, of.lse = lse;
  KW_TRY(kw::check_device(kName, device));
  KW_TRY(kw::attention_checks::check_numbers(kName, {causal, window_left, window_right, scale, 0.0, 0, 0}, &of));
  of.q.data = const_cast<void*>(q), of.k.data = const_cast<void*>(k), of.v.data = const_cast<void*>(v);
  of.out.data = out;
  a.q_scale = kw::dense_scales(q_scale, per_head, heads), a.k_scale = kw::dense_scales(k_scale, per_head, kv_heads);
  a.v_scale = kw::dense_scales(v_scale, per_head, kv_heads);
  KW_TRY(kw::check_arrays(kName, a));
  of.q = kw::dense_heads(q, heads, queries, d), of.k = kw::dense_heads(k, kv_heads, keys, d);
  of.v = kw::dense_heads(v, kv_heads, keys, d_v), of.out = kw::dense_heads(out, heads, queries, d_v);
  of.lse_head = queries, of.lse_batch = heads * queries;
  return kw::run(kName, device, stream, a);
}

KW_API kw_status kw_attention_fp8_fits(int32_t device, int64_t batch, int64_t heads, int64_t queries, int64_t keys,
                                       int64_t d, int64_t d_v, int32_t dtype, int64_t alignment, int32_t* yes) {
  constexpr const char* kName = "kw_attention_fp8_fits";
  KW_TRY(kw::check_pointer(kName, "yes", yes, 4));
  kw::Attention a{};
  a.batch = batch, a.heads = a.kv_heads = heads, a.queries = a.total_q = queries, a.keys = a.total_k = keys;
  a.d = d, a.d_v = d_v, a.dtype = dtype;
  KW_TRY(kw::check_device(kName, device));
  const int64_t sizes[] = {batch, heads, queries, keys};
  const char* const names[] = {"batch", "heads", "queries", "keys"};
  for (int i = 0; i < 4; ++i) KW_TRY(kw::check_size(kName, names[i], sizes[i]));
  KW_TRY(kw::attention_checks::check_numbers(kName, {0, -1, -1, 1.0, 0.0, 0, 0}, &a));
  bool fits = true;
  if (device != KW_CPU) KW_TRY(kw::attention_fp8_fits(device, a, alignment, &fits));
  *yes = fits ? 1 : 0;
  return KW_OK;
}
