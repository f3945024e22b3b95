// SPDX-License-Identifier: MIT
// Launches csrc/ops/attention/attention_fp8.cu.
#include "core/error.h"
#include "ops/attention/fp8_params.h"
#include "ops/attention/host/attention_fp8.h"
#include "ops/attention/host/plan.h"

namespace kw {
namespace {

using namespace attention_plan;

Module module{"attention_fp8"};
Kernel any{"attention_fp8_any"};
Kernel tma_kernels[] = {{"attention_fp8_tma_64"}, {"attention_fp8_tma_128"}};

constexpr uint32_t kTmaShared[] = {KW_ATTENTION_FP8_SHARED(64), KW_ATTENTION_FP8_SHARED(128)};
constexpr int64_t kAlignment = 16;

KwHeads bytes_of(const HeadTensor& t, int64_t size) {
  return {static_cast<char*>(t.data), t.batch * size, t.head * size, t.row * size};
}

KwHeadScales scales_of(const HeadScales& s) { return {s.data, s.batch, s.head}; }

KwAttentionFp8Scales scales_of(const AttentionFp8& a) {
  return {scales_of(a.q_scale), scales_of(a.k_scale), scales_of(a.v_scale)};
}

// What sizes and results must be for warpgroups.
bool sizes_fit(const Attention& a) {
  return (a.d == 64 || a.d == 128) && a.d_v == a.d && a.dtype != KW_FLOAT32 && a.keys > 0;
}

// Where there is one batch, head or row its stride does not count; others must go forward.
bool boxes_fit(const HeadTensor& t, int64_t batch, int64_t heads, int64_t rows) {
  const int64_t strides[] = {t.batch, t.head, t.row}, sizes[] = {batch, heads, rows};
  for (int i = 0; i < 3; ++i)
    if (sizes[i] > 1 && (strides[i] <= 0 || strides[i] % kAlignment != 0)) return false;
  return reinterpret_cast<uintptr_t>(t.data) % kAlignment == 0;
}

bool fits(const Attention& a, uint32_t features) {
  return (features & KW_FEATURE_WGMMA) != 0 && sizes_fit(a) && boxes_fit(a.q, a.batch, a.heads, a.queries) &&
         boxes_fit(a.k, a.batch, a.kv_heads, a.keys) && boxes_fit(a.v, a.batch, a.kv_heads, a.keys);
}

// Whole rows of all heads and batches, so many at a time.
TensorMap rows_of(const HeadTensor& t, const Attention& a, int64_t heads, int64_t rows, int64_t box_rows) {
  TensorMap map{t.data, KW_FLOAT8_E4M3FN, 4, {a.d, rows, heads, a.batch}, {}, {a.d, box_rows, 1, 1}, Swizzle::k128};
  if (a.d == 64) map.swizzle = Swizzle::k64;
  map.pitches[1] = rows > 1 ? t.row : a.d;
  map.pitches[2] = heads > 1 ? t.head : a.d;
  map.pitches[3] = a.batch > 1 ? t.batch : a.d;
  return map;
}

kw_status launch_tma(const Context& context, void* stream, const AttentionFp8& from, int64_t tiles, int64_t count) {
  const Attention& a = from.of;
  const int64_t most = context.device->multiprocessors, each = a.heads / a.kv_heads;
  KwAttentionFp8TmaParams p{};
  KwAttentionTmaParams& of = p.of;
  KW_TRY(encode(context, rows_of(a.q, a, a.heads, a.queries, KW_ATTENTION_FP8_ROWS), &of.q));
  KW_TRY(encode(context, rows_of(a.k, a, a.kv_heads, a.keys, KW_ATTENTION_FP8_KEYS), &of.k));
  KW_TRY(encode(context, rows_of(a.v, a, a.kv_heads, a.keys, KW_ATTENTION_FP8_KEYS), &of.v));
  of.out = heads_of(a.out);
  of.lse = a.lse;
  of.sizes = sizes_of(a);
  of.score = score_params(a);
  of.tiles = static_cast<int>(tiles), of.count = static_cast<int>(count);
  // Bytes, where section_of() counts elements of 16 bits.
  const int64_t all = a.batch * a.heads, section = section_of(a, context.device->l2 * 2);
  of.section = static_cast<int>(section < all ? section : all / each * each);
  of.out_vectors = in_vectors(a.out, a.batch, a.heads, a.queries, a.d_v);
  p.scales = scales_of(from);
  p.is_half = a.dtype == KW_FLOAT16;
  Launch how{static_cast<uint32_t>(count < most ? count : most), KW_ATTENTION_FP8_THREADS};
  how.shared = kTmaShared[a.d / 64 - 1];
  return launch(context, tma_kernels[a.d / 64 - 1], how, stream, &p, sizeof p);
}

kw_status launch_any(const Context& context, void* stream, const AttentionFp8& from) {
  const Attention& a = from.of;
  KwAttentionFp8Params p{};
  p.q = bytes_of(a.q, 1), p.k = bytes_of(a.k, 1), p.v = bytes_of(a.v, 1);
  p.out = bytes_of(a.out, size_of(a.dtype));
  p.lse = a.lse;
  p.sizes = sizes_of(a);
  p.score = score_params(a);
  p.scales = scales_of(from);
  p.dtype = a.dtype;
  int64_t rows = 0;
  const bool counted = !__builtin_mul_overflow(a.batch * a.heads, a.queries, &rows);
  const int64_t most = 16 * int64_t{context.device->multiprocessors}, blocks = ratio_up(rows, KW_ATTENTION_FP8_WARPS);
  const Launch how{static_cast<uint32_t>(counted && blocks < most ? blocks : most), KW_ATTENTION_FP8_WARPS * 32};
  return launch(context, any, how, stream, &p, sizeof p);
}

}  // namespace

kw_status launch_attention_fp8(const char*, int32_t device, void* stream, const AttentionFp8& a) {
  Context context;
  KW_TRY(module_context(module, device, &context));
  const int64_t tiles = ratio_up(a.of.queries, KW_ATTENTION_FP8_ROWS);
  int64_t count = 0;
  const bool counted = !__builtin_mul_overflow(tiles * a.of.heads, a.of.batch, &count) && count <= kMaxBlocks;
  if (counted && fits(a.of, context.features)) return launch_tma(context, stream, a, tiles, count);
  return launch_any(context, stream, a);
}

kw_status attention_fp8_fits(int32_t device, const Attention& a, int64_t alignment, bool* yes) {
  constexpr double kSmall = 1 << 24;  // multiplications, which take as long as a few launches
  const double scores = static_cast<double>(a.batch) * static_cast<double>(a.heads) * static_cast<double>(a.queries) *
                        static_cast<double>(a.keys);
  *yes = scores * static_cast<double>(a.d + a.d_v) <= kSmall;
  if (*yes) return KW_OK;
  Context context;
  KW_TRY(module_context(module, device, &context));
  *yes = (context.features & KW_FEATURE_WGMMA) != 0 && sizes_fit(a) && alignment % kAlignment == 0;
  return KW_OK;
}

}  // namespace kw
