// SPDX-License-Identifier: MIT
// Plans and launches the derivatives by warpgroups: what is known of each query first, then by keys and values, then
// from sums to dq.
#include "core/error.h"
#include "ops/attention/derive_geometry.h"
#include "ops/attention/derive_params.h"
#include "ops/attention/host/derive.h"
#include "ops/attention/host/launch.h"

namespace kw {
namespace {

using namespace attention_plan;

#define KW_TYPES(name) {{name "_float16"}, {name "_bfloat16"}}

Module module{"attention_gradients"};

Kernel prepare_kernels[3][2] = {KW_TYPES("attention_backward_prepare_64"), KW_TYPES("attention_backward_prepare_128"),
                                KW_TYPES("attention_backward_prepare_256")};
Kernel derive_kernels[3][2] = {KW_TYPES("attention_backward_tma_64"), KW_TYPES("attention_backward_tma_128"),
                               KW_TYPES("attention_backward_tma_256")};
Kernel collect_kernels[3][2] = {KW_TYPES("attention_backward_collect_64"), KW_TYPES("attention_backward_collect_128"),
                                KW_TYPES("attention_backward_collect_256")};
constexpr uint32_t kDeriveShared[] = {KW_ATTENTION_DERIVE_SHARED(64), KW_ATTENTION_DERIVE_SHARED(128),
                                      KW_ATTENTION_DERIVE_SHARED(256)};

}  // namespace

DerivePlan derive_plan(const Context& context, const BackwardSizes& of) {
  const int64_t widest = of.d > of.d_v ? of.d : of.d_v, heads = (of.sequences ? 1 : of.batch) * of.heads;
  if ((context.features & KW_FEATURE_WGMMA) == 0 || of.deterministic) return {};
  const int64_t d = widest > KW_ATTENTION_MIDDLE  ? KW_ATTENTION_LARGE
                    : widest > KW_ATTENTION_SMALL ? KW_ATTENTION_MIDDLE
                                                  : KW_ATTENTION_SMALL;
  const int64_t each = KW_ATTENTION_DERIVE_QUERIES(d);
  DerivePlan plan{};
  plan.all_tiles = of.sequences ? of.rows / each + of.batch : ratio_up(of.rows, each);
  int64_t tiles = 0;
  if (__builtin_mul_overflow(plan.all_tiles, heads, &tiles) || tiles > kMaxBlocks) return {};
  plan.numbers = ratio_up(heads * of.rows * static_cast<int64_t>(sizeof(float)), 128) * 128;
  plan.sums = plan.numbers + tiles * KW_ATTENTION_DERIVE_NUMBERS(d);
  plan.bytes = plan.sums + tiles * KW_ATTENTION_DERIVE_SUMS(d);
  return plan;
}

bool fits_derive(const AttentionBackward& b, const DerivePlan& plan, uint32_t features) {
  const Attention& a = b.of;
  const auto vectors = [&](const HeadTensor& t) { return in_vectors(t, a.batch, a.heads, a.total_q, a.d_v); };
  return plan.bytes > 0 && plan.bytes <= b.workspace_bytes && fits_tma(a, features) && vectors(a.out) &&
         vectors(b.dout) && b.dout.row > 0 && (a.heads <= 1 || b.dout.head > 0) &&
         (a.batch <= 1 || a.starts_q != nullptr || b.dout.batch > 0);
}

namespace {

kw_status derive_params(const Context& context, const AttentionBackward& b, const DerivePlan& plan, int64_t d,
                        KwAttentionDeriveParams* p) {
  const Attention& a = b.of;
  const KwAttentionBackwardParams general = backward_params(b, context.device->l2);
  const int64_t batch = a.starts_q == nullptr ? a.batch : 1, rows = KW_ATTENTION_DERIVE_QUERIES(d);
  const int64_t keys = KW_ATTENTION_DERIVE_KEYS(d);
  KW_TRY(encode(context, boxes_of(a.q, a.dtype, batch, a.heads, a.total_q, a.d, rows), &p->q));
  KW_TRY(encode(context, boxes_of(b.dout, a.dtype, batch, a.heads, a.total_q, a.d_v, rows), &p->dout_boxes));
  KW_TRY(encode(context, boxes_of(a.k, a.dtype, batch, a.kv_heads, a.total_k, a.d, keys), &p->k));
  KW_TRY(encode(context, boxes_of(a.v, a.dtype, batch, a.kv_heads, a.total_k, a.d_v, keys), &p->v));
  p->out = general.out, p->dout = general.dout, p->dq = general.dq, p->dk = general.dk, p->dv = general.dv;
  char* const room = static_cast<char*>(b.workspace);
  p->lse = a.lse, p->delta = b.dsinks == nullptr ? nullptr : general.delta;
  p->numbers = reinterpret_cast<float*>(room + plan.numbers), p->sums = reinterpret_cast<float*>(room + plan.sums);
  p->sizes = general.sizes, p->score = general.score;
  p->delta_batch = general.delta_batch, p->delta_head = general.delta_head;
  p->tiles = static_cast<int>(ratio_up(a.queries, rows)), p->all_tiles = static_cast<int>(plan.all_tiles);
  p->key_tiles = static_cast<int>(ratio_up(a.keys, keys));
  const int64_t each = (a.queries + 1) * (a.d * 6 + a.d_v * 2) * (a.heads / a.kv_heads);  // q, dout and sums of dq
  const int64_t many = context.device->l2 / 2 / each, all = a.batch * a.kv_heads;
  p->section = static_cast<int>(many < 1 ? 1 : many < all ? many : all);
  p->results_in_vectors = general.results_in_vectors;
  return KW_OK;
}

}  // namespace

kw_status launch_derive(const char* name, int32_t device, void* stream, const AttentionBackward& b,
                        const DerivePlan& plan) {
  Context context;
  KW_TRY(module_context(module, device, &context));
  const Attention& a = b.of;
  const int size = size_class(a), type = a.dtype - KW_FLOAT16;
  const int64_t d = kClassSize[size];
  KwAttentionDeriveParams p{};
  KW_TRY(derive_params(context, b, plan, d, &p));
  int64_t by_queries = 0, by_keys = 0;
  KW_TRY(count_blocks(name, p.tiles, a.heads, a.batch, &by_queries));
  KW_TRY(count_blocks(name, p.key_tiles, a.kv_heads, a.batch, &by_keys));
  Launch how{static_cast<uint32_t>(by_queries), KW_ATTENTION_PREPARE_THREADS};
  if (by_queries > 0) KW_TRY(launch(context, prepare_kernels[size][type], how, stream, &p, sizeof p));
  KW_TRY(launch_sinks(name, device, stream, b));
  how = {static_cast<uint32_t>(by_keys), KW_ATTENTION_DERIVE_THREADS, kDeriveShared[size]};
  KW_TRY(launch(context, derive_kernels[size][type], how, stream, &p, sizeof p));
  how = {static_cast<uint32_t>(by_queries), KW_ATTENTION_COLLECT_THREADS,
         static_cast<uint32_t>(KW_ATTENTION_DERIVE_SUMS(d) / 2)};
  return by_queries > 0 ? launch(context, collect_kernels[size][type], how, stream, &p, sizeof p) : KW_OK;
}

}  // namespace kw
