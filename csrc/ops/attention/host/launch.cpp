// SPDX-License-Identifier: MIT
#include "ops/attention/host/launch.h"

#include "core/error.h"
#include "ops/attention/host/plan.h"

namespace kw {
namespace {

using namespace attention_plan;

#define KW_TYPES(name) {{name "_float16"}, {name "_bfloat16"}}

Module module{"attention"};
Kernel kernels[3][2] = {KW_TYPES("attention_small"), KW_TYPES("attention_middle"), KW_TYPES("attention_large")};

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
  p.vectors = rows_in_vectors(a);
  p.out_vectors = in_vectors(a.out, a.batch, a.heads, a.total_q, a.d_v);
  Launch how{static_cast<uint32_t>(blocks), KW_ATTENTION_THREADS};
  how.shared = static_cast<uint32_t>(KW_ATTENTION_SHARED(d));
  return launch(context, kernels[size][a.dtype - KW_FLOAT16], how, stream, &p, sizeof p);
}

}  // namespace

kw_status launch_attention(const char* name, int32_t device, void* stream, const Attention& a) {
  Context context;
  KW_TRY(module_context(module, device, &context));
  KW_TRY(refuse_old(name, context));
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
