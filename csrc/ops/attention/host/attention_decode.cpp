// SPDX-License-Identifier: MIT
// kw_attention_decode_tensors: checks its arguments, then runs on the CPU or launches a kernel, or two where the keys
// are split.
#include "ops/attention/api/attention_decode.h"

#include "core/checks.h"
#include "ops/attention/decode_params.h"
#include "ops/attention/host/checks.h"
#include "ops/attention/host/decode_checks.h"
#include "ops/attention/host/decode_plan.h"

namespace kw {
namespace {

using namespace decode_plan;

#define KW_TYPES(name) {{name "_float16"}, {name "_bfloat16"}}

Module module{"attention_decode"};
Kernel kernels[3][2] = {KW_TYPES("attention_decode_small"), KW_TYPES("attention_decode_middle"),
                        KW_TYPES("attention_decode_large")};
Kernel merge_kernels[2] = {{"attention_decode_merge_float16"}, {"attention_decode_merge_bfloat16"}};

constexpr uint32_t kMergeShared = KW_DECODE_MERGE_THREADS / 32 * KW_ATTENTION_LARGE * 4;

kw_status refuse(const char* name, const Context& context, const Decode& a) {
  if ((context.features & KW_FEATURE_BF16_MMA) == 0)
    return fail(KW_ERROR_UNSUPPORTED,
                "%s: CUDA device %d has compute capability %d.%d, without products of bfloat16; attention needs 8.0",
                name, context.device->ordinal, context.device->capability / 10, context.device->capability % 10);
  if (a.of.dtype == KW_FLOAT32)
    return fail(KW_ERROR_UNSUPPORTED, "%s: float32 is computed on the CPU alone; give a GPU float16 or bfloat16", name);
  return KW_OK;
}

bool rows_in_vectors(const Decode& a) {
  const Attention& of = a.of;
  const int64_t rows = a.pages != nullptr ? a.page_rows : of.keys;
  return attention_plan::in_vectors(of.k, a.caches, of.kv_heads, rows, of.d) &&
         attention_plan::in_vectors(of.v, a.caches, of.kv_heads, rows, of.d_v);
}

KwRope rope_of(const Decode& a) {
  KwRope r{};
  r.cos = static_cast<const char*>(a.cos), r.sin = static_cast<const char*>(a.sin);
  r.row = a.rope_row * 2, r.pairs = static_cast<int>(a.pairs), r.interleaved = a.interleaved;
  r.max_positions = static_cast<int>(a.max_positions), r.moves = a.moves;
  return r;
}

KwDecodeParams params_of(const Decode& a, const Plan& plan) {
  const Attention& of = a.of;
  KwDecodeParams p{};
  p.q = attention_plan::heads_of(of.q), p.k = attention_plan::heads_of(of.k), p.v = attention_plan::heads_of(of.v);
  p.out = attention_plan::heads_of(of.out);
  p.k_new = attention_plan::heads_of(a.k_new), p.v_new = attention_plan::heads_of(a.v_new);
  p.lse = of.lse, p.lse_batch = of.lse_batch, p.lse_head = of.lse_head;
  p.lengths = a.lengths, p.batch_index = a.batch_index, p.pages = a.pages, p.pages_stride = a.pages_stride;
  p.page_rows = static_cast<int>(a.page_rows);
  p.score = attention_plan::score_params(of);
  p.rope = rope_of(a);
  p.batch = static_cast<int>(of.batch), p.heads = static_cast<int>(of.heads),
  p.kv_heads = static_cast<int>(of.kv_heads);
  p.queries = static_cast<int>(of.queries), p.keys = static_cast<int>(of.keys),
  p.new_rows = static_cast<int>(a.new_rows);
  p.d = static_cast<int>(of.d), p.d_v = static_cast<int>(of.d_v);
  p.row_tiles = static_cast<int>(plan.row_tiles), p.splits = static_cast<int>(plan.splits);
  p.sums = static_cast<float*>(a.workspace);
  p.states = reinterpret_cast<float*>(static_cast<char*>(a.workspace) + plan.sums);
  p.vectors = rows_in_vectors(a);
  p.q_vectors = attention_plan::in_vectors(of.q, of.batch, of.heads, of.queries, of.d);
  p.out_vectors = attention_plan::in_vectors(of.out, of.batch, of.heads, of.queries, of.d_v);
  return p;
}

kw_status launch_decode(const char* name, int32_t device, void* stream, const Decode& a) {
  Context context;
  KW_TRY(module_context(module, device, &context));
  KW_TRY(refuse(name, context, a));
  const Plan plan = plan_for(*context.device, a.of, a.splits);
  const int64_t rows = a.of.batch * a.of.heads * a.of.queries;
  if (plan.blocks > attention_plan::kMaxBlocks || rows > attention_plan::kMaxBlocks)
    return fail(KW_ERROR_UNSUPPORTED, "%s: %lld batches of %lld heads and %lld queries are more than one launch takes",
                name, (long long)a.of.batch, (long long)a.of.heads, (long long)a.of.queries);
  if (plan.splits > 1) {
    KW_TRY(check_pointer(name, "workspace", a.workspace, 16));
    if (a.workspace_bytes < plan.sums + plan.states)
      return fail(KW_ERROR_INVALID_ARGUMENT, "%s: workspace has %lld bytes, but must have %lld", name,
                  (long long)a.workspace_bytes, (long long)(plan.sums + plan.states));
  }
  const KwDecodeParams p = params_of(a, plan);
  const auto d = static_cast<uint32_t>(attention_plan::kClassSize[plan.size]);
  Launch how{static_cast<uint32_t>(plan.blocks), static_cast<uint32_t>(KW_DECODE_WARPS(d) * 32)};
  how.shared = static_cast<uint32_t>(KW_DECODE_SHARED(d));
  how.overlap = true;
  KW_TRY(launch(context, kernels[plan.size][a.of.dtype - KW_FLOAT16], how, stream, &p, sizeof p));
  if (plan.splits == 1 || rows == 0) return KW_OK;
  Launch merge{static_cast<uint32_t>(rows), KW_DECODE_MERGE_THREADS};
  merge.shared = kMergeShared;
  merge.overlap = true;
  return launch(context, merge_kernels[a.of.dtype - KW_FLOAT16], merge, stream, &p, sizeof p);
}

kw_status run_decode(const char* name, int32_t device, void* stream, const Decode& a) {
  if (a.of.batch == 0 || a.of.heads == 0 || (a.of.queries == 0 && a.new_rows == 0)) return KW_OK;
  if (device == KW_CPU) return cpu::attention_decode(a);
  return launch_decode(name, device, stream, a);
}

kw_status check_splits(const char* name, int64_t splits) {
  if (splits < 0)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: splits is %lld; it must be 0 or more", name, (long long)splits);
  return KW_OK;
}

kw_status dense(const char* name, const char* argument, const void* data, int32_t dtype, int64_t batch, int64_t heads,
                int64_t rows, int64_t d, HeadTensor* to) {
  int64_t count = 0;
  const bool fits = !__builtin_mul_overflow(batch, heads, &count) && !__builtin_mul_overflow(count, rows, &count) &&
                    !__builtin_mul_overflow(count, d, &count) && count <= kMaxElements;
  if (!fits) return fail(KW_ERROR_INVALID_ARGUMENT, "%s: no memory holds such a %s", name, argument);
  if (count > 0) KW_TRY(check_pointer(name, argument, data, size_of(dtype)));
  *to = {const_cast<void*>(data), heads * rows * d, rows * d, d};
  return KW_OK;
}

}  // namespace
}  // namespace kw

KW_API kw_status kw_attention_decode(int32_t device, void* stream, void* out, float* lse, const void* q, const void* k,
                                     const void* v, const int32_t* lengths, void* workspace, int64_t workspace_bytes,
                                     int64_t batch, int64_t heads, int64_t kv_heads, int64_t queries, int64_t rows,
                                     int64_t d, int64_t d_v, int32_t dtype, int32_t causal, int64_t splits,
                                     double scale) {
  constexpr const char* kName = "kw_attention_decode";
  kw::Decode a{};
  kw::Attention& of = a.of;
  const struct {
    const char* name;
    int64_t size;
  } sizes[] = {{"batch", batch}, {"heads", heads}, {"kv_heads", kv_heads}, {"queries", queries}, {"rows", rows}};
  KW_TRY(kw::check_device(kName, device));
  for (const auto& one : sizes) KW_TRY(kw::check_size(kName, one.name, one.size));
  KW_TRY(kw::check_splits(kName, splits));
  of.batch = batch, of.heads = heads, of.kv_heads = kv_heads, of.queries = queries, of.keys = rows, of.d = d,
  of.d_v = d_v;
  of.total_q = queries, of.total_k = rows, of.dtype = dtype, of.lse = lse;
  KW_TRY(kw::attention_checks::check_numbers(kName, {causal, -1, -1, scale, 0.0, 0, 0}, &of));
  KW_TRY(kw::dense(kName, "q", q, dtype, batch, heads, queries, d, &of.q));
  KW_TRY(kw::dense(kName, "k", k, dtype, batch, kv_heads, rows, d, &of.k));
  KW_TRY(kw::dense(kName, "v", v, dtype, batch, kv_heads, rows, d_v, &of.v));
  KW_TRY(kw::dense(kName, "out", out, dtype, batch, heads, queries, d_v, &of.out));
  if (lse != nullptr) KW_TRY(kw::check_pointer(kName, "lse", lse, 4));
  if (lengths != nullptr) KW_TRY(kw::check_pointer(kName, "lengths", lengths, 4));
  of.lse_head = queries, of.lse_batch = heads * queries;
  a.lengths = lengths, a.caches = batch, a.page_rows = rows, a.splits = splits;
  a.workspace = workspace, a.workspace_bytes = workspace_bytes;
  return kw::run_decode(kName, device, stream, a);
}

KW_API kw_status kw_attention_decode_tensors(void* stream, const kw_tensor* out, const kw_tensor* lse,
                                             const kw_tensor* q, const kw_tensor* k, const kw_tensor* v,
                                             const kw_tensor* k_new, const kw_tensor* v_new, const kw_tensor* lengths,
                                             const kw_tensor* block_table, const kw_tensor* batch_index,
                                             const kw_tensor* cos, const kw_tensor* sin, const kw_tensor* sinks,
                                             const kw_tensor* alibi_slopes, void* workspace, int64_t workspace_bytes,
                                             int32_t causal, int64_t window_left, int64_t window_right,
                                             int32_t interleaved, int64_t splits, double scale, double softcap) {
  constexpr const char* kName = "kw_attention_decode_tensors";
  const kw::decode_checks::Tensors from = {out,     lse,         q,           k,   v,   k_new, v_new,
                                           lengths, block_table, batch_index, cos, sin, sinks, alibi_slopes};
  kw::Decode a{};
  int32_t device = KW_CPU;
  KW_TRY(kw::decode_checks::read(kName, from, &a, &device));
  KW_TRY(kw::attention_checks::check_numbers(kName, {causal, window_left, window_right, scale, softcap, 0, 0}, &a.of));
  KW_TRY(kw::check_splits(kName, splits));
  a.interleaved = interleaved != 0, a.splits = splits;
  a.moves = a.of.window_left >= 0 || a.of.window_right >= 0;
  a.workspace = workspace, a.workspace_bytes = workspace_bytes;
  return kw::run_decode(kName, device, stream, a);
}

KW_API kw_status kw_attention_decode_workspace(int32_t device, int64_t batch, int64_t heads, int64_t kv_heads,
                                               int64_t queries, int64_t rows, int64_t d, int64_t d_v, int64_t splits,
                                               int64_t* bytes) {
  constexpr const char* kName = "kw_attention_decode_workspace";
  KW_TRY(kw::check_device(kName, device));
  const int64_t sizes[] = {batch, heads, kv_heads, queries, rows, d, d_v, splits};
  for (const int64_t size : sizes) {
    if (size < 0 || size > (int64_t{1} << 30))
      return kw::fail(KW_ERROR_INVALID_ARGUMENT, "%s: a size is %lld; 0 to 2^30 are supported", kName, (long long)size);
  }
  if (bytes == nullptr) return kw::fail(KW_ERROR_INVALID_ARGUMENT, "%s: bytes is NULL", kName);
  *bytes = 0;
  if (device == KW_CPU || batch == 0 || heads == 0 || kv_heads == 0 || queries == 0) return KW_OK;
  kw::Context context;
  KW_TRY(kw::module_context(kw::module, device, &context));
  kw::Attention a{};
  a.batch = batch, a.heads = heads, a.kv_heads = kv_heads, a.queries = queries, a.keys = rows, a.d = d, a.d_v = d_v;
  const kw::decode_plan::Plan plan = kw::decode_plan::plan_for(*context.device, a, splits);
  *bytes = plan.sums + plan.states;
  return KW_OK;
}
