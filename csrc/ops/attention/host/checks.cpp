// SPDX-License-Identifier: MIT
#include "ops/attention/host/checks.h"

#include <math.h>

namespace kw::attention_checks {
namespace {

constexpr int64_t kFarthest = int64_t{1} << 56;  // elements; what lies farther off no memory has

bool near(int64_t stride) { return stride < kFarthest && stride > -kFarthest; }

// Dimensions, type, device; elements of a row side by side.
kw_status check_rows_of(const char* name, const char* argument, const kw_tensor& t, int64_t dims, int32_t dtype,
                        int32_t device) {
  if (t.dims != dims)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s has %lld dimensions, but must have %lld", name, argument,
                (long long)t.dims, (long long)dims);
  if (t.dtype != dtype)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s is of type %d, but must be of type %d", name, argument, t.dtype,
                dtype);
  if (t.device != device)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s is on device %d, q on %d", name, argument, t.device, device);
  int64_t elements = 1;
  for (int64_t i = 0; i < dims; ++i) {
    KW_TRY(check_size(name, argument, t.sizes[i]));
    if (__builtin_mul_overflow(elements, t.sizes[i], &elements) || elements > kMaxElements || !near(t.strides[i]))
      return fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s reaches farther than there are addresses", name, argument);
  }
  if (elements > 0 && t.data == nullptr) return fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s has no memory", name, argument);
  return KW_OK;
}

kw_status check_last(const char* name, const char* argument, const kw_tensor& t) {
  if (t.strides[t.dims - 1] != 1 && t.sizes[t.dims - 1] > 1)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: elements of a row of %s are %lld apart, but must be adjacent", name,
                argument, (long long)t.strides[t.dims - 1]);
  return KW_OK;
}

kw_status check_sizes(const char* name, const char* argument, const kw_tensor& t, const int64_t* expected) {
  for (int64_t i = 0; i < t.dims; ++i) {
    if (t.sizes[i] != expected[i])
      return fail(KW_ERROR_INVALID_ARGUMENT, "%s: dimension %lld of %s is %lld, but must be %lld", name, (long long)i,
                  argument, (long long)t.sizes[i], (long long)expected[i]);
  }
  return KW_OK;
}

// [batch, heads, rows, d], or [rows, heads, d].
HeadTensor heads_of(const kw_tensor& t) {
  if (t.dims == 4) return {t.data, t.strides[0], t.strides[1], t.strides[2]};
  return {t.data, 0, t.strides[1], t.strides[0]};
}

kw_status read_heads(const char* name, const char* argument, const kw_tensor* tensor, const kw_tensor& q,
                     kw_tensor* found, HeadTensor* heads) {
  KW_TRY(read_tensor(name, argument, tensor, found));
  KW_TRY(check_rows_of(name, argument, *found, q.dims, q.dtype, q.device));
  KW_TRY(check_last(name, argument, *found));
  *heads = heads_of(*found);
  return KW_OK;
}

kw_status read_score(const char* name, const char* argument, const kw_tensor* tensor, const Attention& a,
                     const kw_tensor& q, bool bias, int32_t* dtype, ScoreTensor* score) {
  if (tensor == nullptr) return KW_OK;
  kw_tensor t;
  KW_TRY(read_tensor(name, argument, tensor, &t));
  const bool fits = bias ? t.dtype == q.dtype || t.dtype == KW_FLOAT32 : t.dtype == KW_UINT8;
  if (!fits)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s is of type %d, but must be of type %s", name, argument, t.dtype,
                bias ? "float32 (0) or that of q" : "uint8 (4)");
  KW_TRY(check_rows_of(name, argument, t, 4, t.dtype, q.device));
  const int64_t expected[] = {a.batch, a.heads, a.queries, a.keys};
  KW_TRY(check_sizes(name, argument, t, expected));
  *dtype = t.dtype;
  *score = {t.data, t.strides[0], t.strides[1], t.strides[2], t.strides[3]};
  return KW_OK;
}

kw_status read_per_head(const char* name, const Tensors& from, const kw_tensor& q, Attention* a) {
  kw_tensor t;
  if (from.sinks != nullptr) {
    KW_TRY(read_tensor(name, "sinks", from.sinks, &t));
    KW_TRY(check_rows_of(name, "sinks", t, 1, KW_FLOAT32, q.device));
    KW_TRY(check_last(name, "sinks", t));
    KW_TRY(check_sizes(name, "sinks", t, &a->heads));
    a->sinks = static_cast<const float*>(t.data);
  }
  if (from.slopes != nullptr) {
    KW_TRY(read_tensor(name, "alibi_slopes", from.slopes, &t));
    KW_TRY(check_rows_of(name, "alibi_slopes", t, 2, KW_FLOAT32, q.device));
    const int64_t expected[] = {a->batch, a->heads};
    KW_TRY(check_sizes(name, "alibi_slopes", t, expected));
    a->slopes = static_cast<const float*>(t.data);
    a->slopes_batch = t.strides[0], a->slopes_head = t.strides[1];
  }
  return KW_OK;
}

kw_status read_lse(const char* name, const kw_tensor* tensor, const kw_tensor& q, Attention* a) {
  if (tensor == nullptr) return KW_OK;
  kw_tensor t;
  KW_TRY(read_tensor(name, "lse", tensor, &t));
  KW_TRY(check_rows_of(name, "lse", t, q.dims - 1, KW_FLOAT32, q.device));
  KW_TRY(check_last(name, "lse", t));
  const int64_t dense[] = {a->batch, a->heads, a->queries}, of_rows[] = {a->heads, a->total_q};
  KW_TRY(check_sizes(name, "lse", t, q.dims == 4 ? dense : of_rows));
  a->lse = static_cast<float*>(t.data);
  a->lse_batch = q.dims == 4 ? t.strides[0] : 0;
  a->lse_head = t.strides[q.dims - 3];
  return KW_OK;
}

kw_status read_starts(const char* name, const char* argument, const kw_tensor* tensor, const kw_tensor& q,
                      int64_t* batch, const int32_t** starts) {
  kw_tensor t;
  KW_TRY(read_tensor(name, argument, tensor, &t));
  KW_TRY(check_rows_of(name, argument, t, 1, KW_INT32, q.device));
  KW_TRY(check_last(name, argument, t));
  if (t.sizes[0] < 1 || (*batch >= 0 && t.sizes[0] != *batch + 1))
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s has %lld elements; both must have one more than there are sequences",
                name, argument, (long long)t.sizes[0]);
  *batch = t.sizes[0] - 1;
  *starts = static_cast<const int32_t*>(t.data);
  return KW_OK;
}

// Sizes of q, k and v; of sequences, where they begin.
kw_status read_sizes(const char* name, const Tensors& from, const Options& options, const kw_tensor& q,
                     const kw_tensor& k, const kw_tensor& v, Attention* a) {
  const int last = static_cast<int>(q.dims) - 1, rows = q.dims == 4 ? 2 : 0;
  a->heads = q.sizes[1], a->kv_heads = k.sizes[1], a->d = q.sizes[last], a->d_v = v.sizes[last];
  a->total_q = q.sizes[rows], a->total_k = k.sizes[rows];
  if (q.dims == 4) {
    a->batch = q.sizes[0], a->queries = a->total_q, a->keys = a->total_k;
  } else {
    a->batch = -1;
    KW_TRY(read_starts(name, "cu_seqlens_q", from.starts_q, q, &a->batch, &a->starts_q));
    KW_TRY(read_starts(name, "cu_seqlens_k", from.starts_k, q, &a->batch, &a->starts_k));
    KW_TRY(check_size(name, "max_q", options.max_q));
    KW_TRY(check_size(name, "max_k", options.max_k));
    a->queries = options.max_q < a->total_q ? options.max_q : a->total_q;
    a->keys = options.max_k < a->total_k ? options.max_k : a->total_k;
  }
  int64_t of_k[] = {a->batch, a->kv_heads, a->total_k, a->d}, of_v[] = {a->batch, a->kv_heads, a->total_k, a->d_v};
  if (q.dims == 3) of_k[0] = of_v[0] = a->total_k, of_k[2] = a->d, of_v[2] = a->d_v;
  KW_TRY(check_sizes(name, "k", k, of_k));
  return check_sizes(name, "v", v, of_v);
}

}  // namespace

kw_status check_numbers(const char* name, const Options& options, Attention* a) {
  KW_TRY(check_float_type(name, a->dtype));
  if (a->d < 1 || a->d > kMostD || a->d_v < 1 || a->d_v > kMostD)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: heads have %lld and %lld elements; 1 to %lld are supported", name,
                (long long)a->d, (long long)a->d_v, (long long)kMostD);
  if (a->heads < 0 || a->kv_heads < 0 || (a->kv_heads == 0 ? a->heads != 0 : a->heads % a->kv_heads != 0))
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: %lld heads are no multiple of k's %lld", name, (long long)a->heads,
                (long long)a->kv_heads);
  if (a->total_q > kMostRows || a->total_k > kMostRows || a->batch > kMostRows || a->heads > kMostRows)
    return fail(KW_ERROR_UNSUPPORTED,
                "%s: there are %lld queries, %lld keys, %lld heads and %lld batches; at most %lld "
                "of each are supported",
                name, (long long)a->total_q, (long long)a->total_k, (long long)a->heads, (long long)a->batch,
                (long long)kMostRows);
  if (options.window_left < -1 || options.window_right < -1)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: the window is %lld before and %lld behind; -1 is all, or 0 or more",
                name, (long long)options.window_left, (long long)options.window_right);
  if (!isfinite(options.scale) || fabs(options.scale) > 1e30 || !(options.softcap >= 0.0 && options.softcap <= 1e30))
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: scale is %g and softcap %g; they must be finite, softcap not negative",
                name, options.scale, options.softcap);
  a->window_left = options.window_left > kMostRows ? -1 : options.window_left;
  a->window_right = options.causal != 0 ? 0 : options.window_right > kMostRows ? -1 : options.window_right;
  a->scale = options.scale, a->softcap = options.softcap;
  return KW_OK;
}

kw_status check_array(const char* name, const char* argument, const void* data, int64_t rows, int64_t batch,
                      int64_t heads, int64_t d, int32_t dtype) {
  int64_t count = 0;
  const bool fits = !__builtin_mul_overflow(batch, heads, &count) && !__builtin_mul_overflow(count, rows, &count) &&
                    !__builtin_mul_overflow(count, d, &count) && count <= kMaxElements;
  if (!fits) return fail(KW_ERROR_INVALID_ARGUMENT, "%s: no memory holds such a %s", name, argument);
  return count == 0 ? KW_OK : check_pointer(name, argument, data, size_of(dtype));
}

kw_status read_beside(const char* name, const char* argument, const kw_tensor* tensor, const kw_tensor* like, int64_t d,
                      HeadTensor* found) {
  kw_tensor t, of;
  KW_TRY(read_tensor(name, argument, like, &of));
  KW_TRY(read_heads(name, argument, tensor, of, &t, found));
  int64_t expected[4];
  for (int64_t i = 0; i < of.dims; ++i) expected[i] = of.sizes[i];
  expected[of.dims - 1] = d;
  return check_sizes(name, argument, t, expected);
}

kw_status read(const char* name, const Tensors& from, const Options& options, Attention* a, int32_t* device) {
  kw_tensor q, k, v;
  const bool dense = from.starts_q == nullptr && from.starts_k == nullptr;
  KW_TRY(read_tensor(name, "q", from.q, &q));
  KW_TRY(check_rows_of(name, "q", q, dense ? 4 : 3, q.dtype, q.device));
  KW_TRY(read_heads(name, "q", from.q, q, &q, &a->q));
  KW_TRY(read_heads(name, "k", from.k, q, &k, &a->k));
  KW_TRY(read_heads(name, "v", from.v, q, &v, &a->v));
  KW_TRY(read_sizes(name, from, options, q, k, v, a));
  a->dtype = q.dtype;
  *device = q.device;
  KW_TRY(read_beside(name, "out", from.out, from.q, a->d_v, &a->out));
  KW_TRY(read_lse(name, from.lse, q, a));
  KW_TRY(read_per_head(name, from, q, a));
  int32_t ignored = 0;
  KW_TRY(read_score(name, "mask", from.mask, *a, q, false, &ignored, &a->mask));
  KW_TRY(read_score(name, "bias", from.bias, *a, q, true, &a->bias_dtype, &a->bias));
  return check_numbers(name, options, a);
}

}  // namespace kw::attention_checks
