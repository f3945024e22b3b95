// SPDX-License-Identifier: MIT
// Plans and launches the kernels of the derivatives: sums of each row first, then by queries, then by keys and values.
#include "core/error.h"
#include "ops/attention/host/derive.h"
#include "ops/attention/host/launch.h"

namespace kw {
namespace {

using namespace attention_plan;

Module deltas_module{"attention_gradients"};
Kernel deltas_kernels[2] = {{"attention_backward_deltas_float16"}, {"attention_backward_deltas_bfloat16"}};
Kernel sink_kernel{"attention_backward_sinks"};

#define KW_TYPES(name) {{name "_float16"}, {name "_bfloat16"}}

Kernel query_kernels[3][2] = {KW_TYPES("attention_backward_queries_small"),
                              KW_TYPES("attention_backward_queries_middle"),
                              KW_TYPES("attention_backward_queries_large")};
Kernel key_kernels[3][2] = {KW_TYPES("attention_backward_keys_small"), KW_TYPES("attention_backward_keys_middle"),
                            KW_TYPES("attention_backward_keys_large")};
Kernel delta_kernels[2] = KW_TYPES("attention_backward_delta");

// What becomes dq, dk and dv lies on 16 bytes.
bool results_in_vectors(const AttentionBackward& b) {
  const Attention& a = b.of;
  return in_vectors(b.dq, a.batch, a.heads, a.total_q, a.d) && in_vectors(b.dk, a.batch, a.kv_heads, a.total_k, a.d) &&
         in_vectors(b.dv, a.batch, a.kv_heads, a.total_k, a.d_v);
}

}  // namespace

KwAttentionBackwardParams backward_params(const AttentionBackward& b, int64_t l2) {
  const Attention& a = b.of;
  KwAttentionBackwardParams p{};
  p.q = heads_of(a.q), p.k = heads_of(a.k), p.v = heads_of(a.v), p.out = heads_of(a.out);
  p.dout = heads_of(b.dout), p.dq = heads_of(b.dq), p.dk = heads_of(b.dk), p.dv = heads_of(b.dv);
  p.lse = a.lse, p.delta = static_cast<float*>(b.workspace), p.dsinks = b.dsinks;
  p.sizes = sizes_of(a), p.score = score_params(a);
  const int64_t batch = a.starts_q == nullptr ? a.batch : 1;
  p.delta_rows = a.total_q, p.delta_head = a.total_q, p.delta_heads = batch * a.heads;
  p.delta_batch = a.starts_q == nullptr ? a.heads * a.total_q : 0;
  p.section = static_cast<int>(section_of(a, l2));
  p.vectors = rows_in_vectors(a) && in_vectors(b.dout, a.batch, a.heads, a.total_q, a.d_v);
  p.results_in_vectors = results_in_vectors(b);
  return p;
}

kw_status count_blocks(const char* name, int64_t tiles, int64_t heads, int64_t batch, int64_t* blocks) {
  if (__builtin_mul_overflow(tiles * heads, batch, blocks) || *blocks > kMaxBlocks)
    return fail(KW_ERROR_UNSUPPORTED, "%s: %lld batches of %lld heads and %lld tiles are more than one launch takes",
                name, (long long)batch, (long long)heads, (long long)tiles);
  return KW_OK;
}

kw_status launch_sinks(const char* name, int32_t device, void* stream, const AttentionBackward& b) {
  if (b.dsinks == nullptr) return KW_OK;
  Context context;
  KW_TRY(attention_context(name, device, &context));
  const KwAttentionBackwardParams p = backward_params(b, context.device->l2);
  const Launch how{static_cast<uint32_t>(b.of.heads), KW_ATTENTION_THREADS};
  return launch(context, sink_kernel, how, stream, &p, sizeof p);
}

namespace {

// Each row's delta; by vectors where all lie on 16 bytes.
kw_status launch_deltas(const char* name, int32_t device, const Context& context, void* stream,
                        const AttentionBackward& b, const KwAttentionBackwardParams& p) {
  const Attention& a = b.of;
  const int type = a.dtype - KW_FLOAT16;
  int64_t blocks = 0;
  KW_TRY(count_blocks(name, ratio_up(p.delta_rows * p.delta_heads, 4), 1, 1, &blocks));
  if (blocks == 0) return KW_OK;
  const Launch how{static_cast<uint32_t>(blocks), KW_ATTENTION_THREADS};
  if (!in_vectors(a.out, a.batch, a.heads, a.total_q, a.d_v) || !in_vectors(b.dout, a.batch, a.heads, a.total_q, a.d_v))
    return launch(context, delta_kernels[type], how, stream, &p, sizeof p);
  Context own;
  KW_TRY(module_context(deltas_module, device, &own));
  return launch(own, deltas_kernels[type], how, stream, &p, sizeof p);
}

kw_status launch_general(const char* name, int32_t device, const Context& context, void* stream,
                         const AttentionBackward& b) {
  const Attention& a = b.of;
  KwAttentionBackwardParams p = backward_params(b, context.device->l2);
  const int size = size_class(a), type = a.dtype - KW_FLOAT16;
  const int64_t d = kClassSize[size], each = KW_ATTENTION_BACKWARD_ROWS;
  const int64_t tiles = ratio_up(a.queries, each),
                key_tiles = ratio_up(a.keys, each) * (d > KW_ATTENTION_MIDDLE ? 2 : 1);
  int64_t by_queries = 0, by_keys = 0;
  KW_TRY(count_blocks(name, tiles, a.heads, a.batch, &by_queries));
  KW_TRY(count_blocks(name, key_tiles, a.kv_heads, a.batch, &by_keys));
  p.tiles = static_cast<int>(tiles);
  KW_TRY(launch_deltas(name, device, context, stream, b, p));
  Launch how{0, KW_ATTENTION_THREADS};
  KW_TRY(launch_sinks(name, device, stream, b));
  how.shared = static_cast<uint32_t>(KW_ATTENTION_BACKWARD_SHARED(d));
  how.grid = static_cast<uint32_t>(by_queries);
  if (by_queries > 0) KW_TRY(launch(context, query_kernels[size][type], how, stream, &p, sizeof p));
  how.grid = static_cast<uint32_t>(by_keys);
  return by_keys > 0 ? launch(context, key_kernels[size][type], how, stream, &p, sizeof p) : KW_OK;
}

BackwardSizes backward_sizes(const AttentionBackward& b) {
  const Attention& a = b.of;
  return {a.batch, a.heads, a.total_q, a.d, a.d_v, a.starts_q != nullptr, b.deterministic};
}

}  // namespace

kw_status backward_workspace(const char* name, int32_t device, const BackwardSizes& of, int64_t* bytes) {
  Context context;
  KW_TRY(attention_context(name, device, &context));
  const int64_t least = (of.sequences ? 1 : of.batch) * of.heads * of.rows * static_cast<int64_t>(sizeof(float));
  const int64_t most = derive_plan(context, of).bytes;
  *bytes = least > most ? least : most;
  return KW_OK;
}

kw_status launch_attention_backward(const char* name, int32_t device, void* stream, const AttentionBackward& b) {
  Context context;
  KW_TRY(attention_context(name, device, &context));
  const DerivePlan plan = derive_plan(context, backward_sizes(b));
  if (fits_derive(b, plan, context.features) && b.of.total_q > 0) return launch_derive(name, device, stream, b, plan);
  return launch_general(name, device, context, stream, b);
}

}  // namespace kw
