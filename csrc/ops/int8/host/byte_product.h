// SPDX-License-Identifier: MIT
// What calls of matmul_int8 and of matmul_fp8 have in common: checks, and how they are launched. All of it is inline: a
// build of one family has no objects of another.
#pragma once

#include "core/checks.h"
#include "core/tensor_map.h"
#include "ops/int8/host/matmul_plan.h"

namespace kw {

// By warpgroups; of few rows, by warps, on any GPU.
struct ByteKernels {
  Kernel single[3], pair;
  Kernel few[2], tile, any;
  matmul_int8_plan::Needs needs;
};

namespace matmul_int8_plan {

constexpr int64_t kMaxBlocks = 0x7fffffff;

static_assert(int{KW_MATMUL_FLOAT32} == KW_FLOAT32 && int{KW_MATMUL_FLOAT16} == KW_FLOAT16 &&
                  int{KW_MATMUL_BFLOAT16} == KW_BFLOAT16 && int{KW_MATMUL_INT32} == KW_INT32,
              "kernels number element types as the ABI does");

inline KwMatmulResult result_of(const ByteProduct& a) {
  const int64_t size = size_of(a.dtype);
  KwMatmulResult to{};
  to.y = static_cast<char*>(a.y);
  to.x_scale = reinterpret_cast<const char*>(a.x_scale);
  to.weight_scale = reinterpret_cast<const char*>(a.weight_scale);
  to.bias = static_cast<const char*>(a.bias);
  to.y_pitch = a.y_stride * size;
  to.m = a.m, to.n = a.n;
  to.factor = a.factor;
  to.dtype = a.dtype, to.bias_dtype = a.bias_dtype;
  to.vectors = a.n % 4 == 0 && reinterpret_cast<uintptr_t>(a.y) % static_cast<uintptr_t>(4 * size) == 0 &&
               (a.m == 1 || a.y_stride % 4 == 0);
  return to;
}

// A factor's boxes: all of the rows that it has, 128 of k.
inline kw_status encode_factor(const Context& context, const void* from, int64_t rows, int64_t stride, int64_t k,
                               int64_t box, void* map) {
  const int64_t pitch = rows > 1 ? stride : ratio_up(k, kAlignment) * kAlignment;
  return encode(context, matrix_map(from, KW_INT8, rows, k, pitch, box, KW_MATMUL_DEPTH, Swizzle::k128), map);
}

// The product of some rows of x.
inline ByteProduct rows_of_product(const ByteProduct& a, int64_t first, int64_t count) {
  ByteProduct part = a;
  part.m = count;
  part.x = a.x + first * a.x_stride;
  part.x_scale = a.x_scale == nullptr ? nullptr : a.x_scale + first;
  part.y = static_cast<char*>(a.y) + first * a.y_stride * size_of(a.dtype);
  return part;
}

inline kw_status run_warpgroups(const Context& context, void* stream, const ByteProduct& a, ByteKernels* kernels) {
  const Plan plan = plan_for(a, *context.device);
  KwMatmulParams p{};
  KW_TRY(encode_factor(context, a.x, a.m, a.x_stride, a.k, KW_MATMUL_ROWS, &p.x));
  KW_TRY(encode_factor(context, a.weight, a.n, a.weight_stride, a.k, plan.width / plan.cluster, &p.weight));
  p.to = result_of(a);
  p.steps = static_cast<unsigned>(ratio_up(a.k, KW_MATMUL_DEPTH));
  p.rows = static_cast<unsigned>(plan.rows);
  p.columns = static_cast<unsigned>(plan.columns);
  p.group = kGroup;
  p.activation = a.activation;
  Launch how{static_cast<uint32_t>(plan.grid), KW_MATMUL_THREADS};
  how.shared = KW_MATMUL_SHARED;
  how.cluster = static_cast<uint32_t>(plan.cluster);
  how.overlap = true;
  Kernel& kernel = plan.cluster > 1 ? kernels->pair : kernels->single[plan.width / 128];
  return launch(context, kernel, how, stream, &p, sizeof p);
}

inline KwMatmulAnyParams params_of(const ByteProduct& a, int64_t tile) {
  KwMatmulAnyParams p{};
  p.to = result_of(a);
  p.x = reinterpret_cast<const char*>(a.x);
  p.weight = reinterpret_cast<const char*>(a.weight);
  p.x_pitch = a.x_stride, p.weight_pitch = a.weight_stride;
  p.k = a.k;
  p.rows = static_cast<unsigned>(ratio_up(a.m, tile));
  p.columns = static_cast<unsigned>(ratio_up(a.n, tile));
  p.group = 2 * kGroup;
  p.activation = a.activation;
  return p;
}

// A launch counts its blocks in 31 bits; of more, each half of the rows is a launch.
inline kw_status run_blocks(const char* name, const Context& context, void* stream, const ByteProduct& a, bool tiles,
                            Kernel& kernel) {
  const int64_t tile = tiles ? int64_t{KW_MATMUL_TILE} : int64_t{KW_ANY_TILE};
  const int64_t columns = ratio_up(a.n, tile), blocks = ratio_up(a.m, tile) * columns;
  if (columns > kMaxBlocks)
    return fail(KW_ERROR_UNSUPPORTED, "%s: n is %lld; a GPU is given at most %lld columns at once", name,
                (long long)a.n, (long long)(kMaxBlocks * tile));
  if (blocks > kMaxBlocks) {
    const int64_t half = ratio_up(a.m / 2, tile) * tile;
    KW_TRY(run_blocks(name, context, stream, rows_of_product(a, 0, half), tiles, kernel));
    return run_blocks(name, context, stream, rows_of_product(a, half, a.m - half), tiles, kernel);
  }
  const KwMatmulAnyParams p = params_of(a, tile);
  const int threads = tiles ? int{KW_MATMUL_TILE_THREADS} : int{KW_ANY_THREADS};
  Launch how{static_cast<uint32_t>(blocks), static_cast<uint32_t>(threads)};
  how.shared = tiles ? KW_MATMUL_TILE_SHARED : 0;
  how.overlap = true;
  return launch(context, kernel, how, stream, &p, sizeof p);
}

inline kw_status run_few(const Context& context, void* stream, const ByteProduct& a, ByteKernels* kernels) {
  const KwMatmulAnyParams p = params_of(a, KW_MATMUL_FEW_COLUMNS);
  const int64_t blocks = few_blocks(p.columns, *context.device);
  Launch how{static_cast<uint32_t>(blocks), KW_MATMUL_FEW_WARPS * 32};
  how.overlap = true;
  return launch(context, kernels->few[a.m > 8], how, stream, &p, sizeof p);
}

}  // namespace matmul_int8_plan

inline kw_status check_bias_type(const char* name, const ByteProduct& a) {
  if (a.bias != nullptr && a.bias_dtype != KW_FLOAT32 && a.bias_dtype != KW_FLOAT16 && a.bias_dtype != KW_BFLOAT16)
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "%s: bias_dtype is %d; it must be KW_FLOAT32 (0), KW_FLOAT16 (1) or KW_BFLOAT16 (2)", name,
                a.bias_dtype);
  return KW_OK;
}

inline kw_status check_sizes(const char* name, const ByteProduct& a) {
  KW_TRY(check_size(name, "m", a.m));
  KW_TRY(check_size(name, "n", a.n));
  KW_TRY(check_size(name, "k", a.k));
  const int64_t widest = a.n > a.k ? a.n : a.k;
  if ((a.k > 0 && a.n > kMaxElements / a.k) || (widest > 0 && a.m > kMaxElements / widest))
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "%s: m, n and k are %lld, %lld and %lld; no memory holds such matrices. Look at how they were computed",
                name, (long long)a.m, (long long)a.n, (long long)a.k);
  return KW_OK;
}

inline kw_status check_pointers(const char* name, const ByteProduct& a) {
  if (a.m == 0 || a.n == 0) return KW_OK;
  KW_TRY(check_pointer(name, "y", a.y, size_of(a.dtype)));
  KW_TRY(check_apart(name, "y", a.y_stride, a.m, a.n));
  if (a.x_scale != nullptr) KW_TRY(check_pointer(name, "x_scale", a.x_scale, 4));
  if (a.weight_scale != nullptr) KW_TRY(check_pointer(name, "weight_scale", a.weight_scale, 4));
  if (a.bias != nullptr) KW_TRY(check_pointer(name, "bias", a.bias, size_of(a.bias_dtype)));
  if (a.k == 0) return KW_OK;
  KW_TRY(check_pointer(name, "x", a.x, 1));
  return check_pointer(name, "weight", a.weight, 1);
}

// `name` is the function's, for its messages.
inline kw_status run_product(const char* name, const Context& context, void* stream, const ByteProduct& a,
                             ByteKernels* kernels) {
  using namespace matmul_int8_plan;
  const Way way = way_for(a, context.features, kernels->needs);
  if (way == Way::kWarpgroups) return run_warpgroups(context, stream, a, kernels);
  if (way == Way::kFew) return run_few(context, stream, a, kernels);
  const bool tiles = way == Way::kTile;
  return run_blocks(name, context, stream, a, tiles, tiles ? kernels->tile : kernels->any);
}

}  // namespace kw
