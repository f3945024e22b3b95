// SPDX-License-Identifier: MIT
#include "ops/attention/host/decode_checks.h"

#include "ops/attention/host/reader.h"

namespace kw::decode_checks {
namespace {

using attention_checks::kAny;
using attention_checks::Reader;

kw_status read_caches(const Reader& r, const Tensors& from, Decode* a) {
  Attention& of = a->of;
  kw_tensor k, v, table;
  KW_TRY(r.heads("k", from.k, kAny, kAny, kAny, of.d, &k, &of.k));
  of.kv_heads = k.sizes[1];
  a->caches = k.sizes[0], a->page_rows = k.sizes[2];
  of.keys = k.sizes[2];
  KW_TRY(r.heads("v", from.v, k.sizes[0], k.sizes[1], k.sizes[2], kAny, &v, &of.v));
  of.d_v = v.sizes[3];
  KW_TRY(r.numbers("lengths", from.lengths, of.batch, &a->lengths));
  KW_TRY(r.numbers("batch_index", from.batch_index, of.batch, &a->batch_index));
  if (from.block_table == nullptr) {
    if (a->batch_index == nullptr && a->caches != of.batch)
      return fail(KW_ERROR_INVALID_ARGUMENT, "%s: k has %lld batches, q %lld; give batch_index, or as many", r.name,
                  (long long)a->caches, (long long)of.batch);
    return KW_OK;
  }
  if (a->batch_index != nullptr)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: batch_index and block_table are both given; a table says it all",
                r.name);
  const int64_t sizes[] = {of.batch, kAny};
  KW_TRY(r.read("block_table", from.block_table, KW_INT32, 2, sizes, &table));
  a->pages = static_cast<const int32_t*>(table.data);
  a->pages_stride = table.strides[0];
  if (__builtin_mul_overflow(table.sizes[1], a->page_rows, &of.keys) || of.keys > (int64_t{1} << 30))
    return fail(KW_ERROR_UNSUPPORTED,
                "%s: block_table has %lld pages of %lld rows a sequence; at most 2^30 rows are supported", r.name,
                (long long)table.sizes[1], (long long)a->page_rows);
  return KW_OK;
}

kw_status read_new(const Reader& r, const Tensors& from, Decode* a) {
  Attention& of = a->of;
  kw_tensor found;
  if ((from.k_new == nullptr) != (from.v_new == nullptr) || (from.cos == nullptr) != (from.sin == nullptr))
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: k_new and v_new, and cos and sin, are given together or not at all",
                r.name);
  if (from.k_new != nullptr) {
    KW_TRY(r.heads("k_new", from.k_new, of.batch, of.kv_heads, kAny, of.d, &found, &a->k_new));
    a->new_rows = found.sizes[2];
    KW_TRY(r.heads("v_new", from.v_new, of.batch, of.kv_heads, a->new_rows, of.d_v, &found, &a->v_new));
    if (a->lengths == nullptr || a->new_rows > of.keys)
      return fail(KW_ERROR_INVALID_ARGUMENT,
                  "%s: k_new has %lld rows for caches of %lld; lengths must say where they go, and they must fit",
                  r.name, (long long)a->new_rows, (long long)of.keys);
  }
  if (from.cos == nullptr) return KW_OK;
  const int64_t any[] = {kAny, kAny};
  KW_TRY(r.read("cos", from.cos, r.dtype, 2, any, &found));
  a->cos = found.data, a->rope_row = found.strides[0], a->max_positions = found.sizes[0], a->pairs = found.sizes[1];
  if (a->pairs * 2 > of.d || a->max_positions < 1)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: cos turns %lld pairs at %lld positions; heads have %lld elements",
                r.name, (long long)a->pairs, (long long)a->max_positions, (long long)of.d);
  const int64_t same[] = {a->max_positions, a->pairs};
  KW_TRY(r.read("sin", from.sin, r.dtype, 2, same, &found));
  a->sin = found.data;
  if (found.strides[0] != a->rope_row && a->max_positions > 1)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: rows of cos are %lld elements apart, of sin %lld; make them alike",
                r.name, (long long)a->rope_row, (long long)found.strides[0]);
  return KW_OK;
}

kw_status read_per_head(const Reader& r, const Tensors& from, Attention* of) {
  kw_tensor found;
  if (from.lse != nullptr) {
    const int64_t sizes[] = {of->batch, of->heads, of->queries};
    KW_TRY(r.read("lse", from.lse, KW_FLOAT32, 3, sizes, &found));
    of->lse = static_cast<float*>(found.data);
    of->lse_batch = found.strides[0], of->lse_head = found.strides[1];
  }
  if (from.sinks != nullptr) {
    KW_TRY(r.read("sinks", from.sinks, KW_FLOAT32, 1, &of->heads, &found));
    of->sinks = static_cast<const float*>(found.data);
  }
  if (from.slopes != nullptr) {
    const int64_t sizes[] = {of->batch, of->heads};
    KW_TRY(r.read("alibi_slopes", from.slopes, KW_FLOAT32, 2, sizes, &found, false));
    of->slopes = static_cast<const float*>(found.data);
    of->slopes_batch = found.strides[0], of->slopes_head = found.strides[1];
  }
  return KW_OK;
}

}  // namespace

kw_status read(const char* name, const Tensors& from, Decode* a, int32_t* device) {
  kw_tensor q, out;
  KW_TRY(read_tensor(name, "q", from.q, &q));
  const Reader r{name, q.dtype, q.device};
  Attention& of = a->of;
  KW_TRY(r.heads("q", from.q, kAny, kAny, kAny, kAny, &q, &of.q));
  of.batch = q.sizes[0], of.heads = q.sizes[1], of.queries = q.sizes[2], of.d = q.sizes[3];
  of.dtype = q.dtype;
  *device = q.device;
  KW_TRY(read_caches(r, from, a));
  KW_TRY(read_new(r, from, a));
  KW_TRY(r.heads("out", from.out, of.batch, of.heads, of.queries, of.d_v, &out, &of.out));
  of.total_q = of.queries, of.total_k = of.keys;
  return read_per_head(r, from, &of);
}

}  // namespace kw::decode_checks
