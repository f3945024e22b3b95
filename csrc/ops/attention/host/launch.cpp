// SPDX-License-Identifier: MIT
#include "ops/attention/host/launch.h"

#include "core/error.h"
#include "ops/attention/host/plan.h"

namespace kw {
namespace {

using namespace attention_plan;

#define KW_TYPES(name) {{name "_float16"}, {name "_bfloat16"}}

Module module{"attention_tiles"};
Kernel kernels[3][2] = {KW_TYPES("attention_small"), KW_TYPES("attention_middle"), KW_TYPES("attention_large")};

Kernel tma_kernels[3][2] = {KW_TYPES("attention_tma_64"), KW_TYPES("attention_tma_128"), KW_TYPES("attention_tma_256")};

constexpr uint32_t kTmaShared[] = {KW_ATTENTION_TMA_SHARED(64, 64), KW_ATTENTION_TMA_SHARED(128, 128),
                                   KW_ATTENTION_TMA_SHARED(256, 256)};

kw_status refuse_old(const char* name, const Context& context) {
  if ((context.features & KW_FEATURE_BF16_MMA) != 0) return KW_OK;
  return fail(KW_ERROR_UNSUPPORTED,
              "%s: CUDA device %d has compute capability %d.%d, without products of bfloat16; attention needs 8.0",
              name, context.device->ordinal, context.device->capability / 10, context.device->capability % 10);
}

kw_status launch_general(const char* name, const Context& context, void* stream, const Attention& a) {
  const int size = size_class(a);
  const int64_t d = kClassSize[size], tiles = ratio_up(a.queries, KW_ATTENTION_ROWS(d));
  int64_t blocks = 0;
  if (__builtin_mul_overflow(tiles * a.heads, a.batch, &blocks) || blocks > kMaxBlocks)
    return fail(KW_ERROR_UNSUPPORTED, "%s: %lld batches of %lld heads and %lld queries are more than one launch takes",
                name, (long long)a.batch, (long long)a.heads, (long long)a.queries);
  KwAttentionParams p{};
  p.q = heads_of(a.q), p.k = heads_of(a.k), p.v = heads_of(a.v), p.out = heads_of(a.out);
  p.lse = a.lse;
  p.sizes = sizes_of(a);
  p.score = score_params(a);
  p.tiles = static_cast<int>(tiles);
  p.section = static_cast<int>(section_of(a, context.device->l2));
  p.vectors = rows_in_vectors(a);
  p.out_vectors = in_vectors(a.out, a.batch, a.heads, a.total_q, a.d_v);
  Launch how{static_cast<uint32_t>(blocks), KW_ATTENTION_THREADS};
  how.shared = static_cast<uint32_t>(KW_ATTENTION_SHARED(d));
  return launch(context, kernels[size][a.dtype - KW_FLOAT16], how, stream, &p, sizeof p);
}

kw_status launch_tma(const Context& context, void* stream, const Attention& a, int64_t tiles, int64_t count) {
  const int size = size_class(a);
  const int64_t d = kClassSize[size], keys = KW_ATTENTION_TMA_KEYS(d), batch = a.starts_q == nullptr ? a.batch : 1;
  KwAttentionTmaParams p{};
  KW_TRY(encode(context, boxes_of(a.q, a.dtype, batch, a.heads, a.total_q, a.d, KW_ATTENTION_TMA_ROWS(d)), &p.q));
  KW_TRY(encode(context, boxes_of(a.k, a.dtype, batch, a.kv_heads, a.total_k, a.d, keys), &p.k));
  KW_TRY(encode(context, boxes_of(a.v, a.dtype, batch, a.kv_heads, a.total_k, a.d_v, keys), &p.v));
  p.out = heads_of(a.out);
  p.lse = a.lse;
  p.sizes = sizes_of(a);
  p.score = score_params(a);
  p.tiles = static_cast<int>(tiles), p.count = static_cast<int>(count);
  p.section = static_cast<int>(section_of(a, context.device->l2));
  p.out_vectors = in_vectors(a.out, a.batch, a.heads, a.total_q, a.d_v);
  const int64_t most = context.device->multiprocessors;
  Launch how{static_cast<uint32_t>(count < most ? count : most), static_cast<uint32_t>(KW_ATTENTION_TMA_THREADS(d))};
  how.shared = kTmaShared[size];
  return launch(context, tma_kernels[size][a.dtype - KW_FLOAT16], how, stream, &p, sizeof p);
}

}  // namespace

kw_status attention_context(const char* name, int32_t device, Context* context) {
  KW_TRY(module_context(module, device, context));
  return refuse_old(name, *context);
}

kw_status launch_attention(const char* name, int32_t device, void* stream, const Attention& a) {
  Context context;
  KW_TRY(attention_context(name, device, &context));
  const int64_t tiles = ratio_up(a.queries, KW_ATTENTION_TMA_ROWS(kClassSize[size_class(a)]));
  int64_t count = 0;
  const bool counted = !__builtin_mul_overflow(tiles * a.heads, a.batch, &count) && count <= kMaxBlocks;
  if (counted && fits_tma(a, context.features)) return launch_tma(context, stream, a, tiles, count);
  return launch_general(name, context, stream, a);
}

kw_status run_attention(const char* name, int32_t device, void* stream, const Attention& a) {
  if (a.batch == 0 || a.heads == 0 || a.queries == 0) return KW_OK;
  if (device == KW_CPU) return cpu::attention(a);
  if (a.dtype == KW_FLOAT32)
    return fail(KW_ERROR_UNSUPPORTED, "%s: float32 is computed on the CPU alone; give a GPU float16 or bfloat16", name);
  return launch_attention(name, device, stream, a);
}

}  // namespace kw
