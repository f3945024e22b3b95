// SPDX-License-Identifier: MIT
// kw_matmul_int8: checks its arguments, then runs on the CPU or plans a launch of csrc/ops/int8/matmul_int8.cu.
#include "ops/int8/api/matmul_int8.h"

#include "core/checks.h"
#include "core/tensor_map.h"
#include "ops/int8/host/matmul_plan.h"

namespace kw {
namespace {

using namespace matmul_int8_plan;

constexpr int64_t kMostDeep = 131071, kMaxBlocks = 0x7fffffff;

static_assert(int{KW_MATMUL_FLOAT32} == KW_FLOAT32 && int{KW_MATMUL_FLOAT16} == KW_FLOAT16 &&
                  int{KW_MATMUL_BFLOAT16} == KW_BFLOAT16 && int{KW_MATMUL_INT32} == KW_INT32,
              "kernels number element types as the ABI does");

Module module{"matmul_int8"};
Kernel by_single[3] = {{"matmul_int8_single_64"}, {"matmul_int8_single_128"}, {"matmul_int8_single_256"}};
Kernel by_pair{"matmul_int8_pair_256"};
Kernel by_few[2] = {{"matmul_int8_few_1"}, {"matmul_int8_few_2"}};
Kernel by_tiles{"matmul_int8_tile"}, by_any{"matmul_int8_any"};

kw_status check_types(const char* name, const MatmulInt8& a) {
  if (a.dtype != KW_INT32) {
    KW_TRY(check_float_type(name, a.dtype));
  } else if (a.x_scale != nullptr || a.weight_scale != nullptr || a.bias != nullptr || a.factor != 1.0f) {
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "%s: dtype is KW_INT32 (%d), which has the sums alone: x_scale, weight_scale and bias must be NULL and "
                "factor 1",
                name, KW_INT32);
  }
  if (!(a.factor >= -3e38f && a.factor <= 3e38f))
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: factor is %g; it must be a finite float32", name, (double)a.factor);
  if (a.bias != nullptr && a.bias_dtype != KW_FLOAT32 && a.bias_dtype != KW_FLOAT16 && a.bias_dtype != KW_BFLOAT16)
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "%s: bias_dtype is %d; it must be KW_FLOAT32 (0), KW_FLOAT16 (1) or KW_BFLOAT16 (2)", name,
                a.bias_dtype);
  return KW_OK;
}

kw_status check_sizes(const char* name, const MatmulInt8& a) {
  KW_TRY(check_size(name, "m", a.m));
  KW_TRY(check_size(name, "n", a.n));
  KW_TRY(check_size(name, "k", a.k));
  if (a.k > kMostDeep)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: k is %lld; sums of more than %lld products may not fit into int32",
                name, (long long)a.k, (long long)kMostDeep);
  const int64_t widest = a.n > a.k ? a.n : a.k;
  if ((a.k > 0 && a.n > kMaxElements / a.k) || (widest > 0 && a.m > kMaxElements / widest))
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "%s: m, n and k are %lld, %lld and %lld; no memory holds such matrices. Look at how they were computed",
                name, (long long)a.m, (long long)a.n, (long long)a.k);
  return KW_OK;
}

kw_status check(const char* name, int32_t device, const MatmulInt8& a) {
  KW_TRY(check_device(name, device));
  KW_TRY(check_types(name, a));
  KW_TRY(check_sizes(name, a));
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

KwMatmulResult result_of(const MatmulInt8& a) {
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
kw_status encode_factor(const Context& context, const int8_t* from, int64_t rows, int64_t stride, int64_t k,
                        int64_t box, void* map) {
  const int64_t pitch = rows > 1 ? stride : ratio_up(k, kAlignment) * kAlignment;
  return encode(context, matrix_map(from, KW_INT8, rows, k, pitch, box, KW_MATMUL_DEPTH, Swizzle::k128), map);
}

kw_status run_warpgroups(const Context& context, void* stream, const MatmulInt8& a) {
  const Plan plan = plan_for(a, *context.device);
  KwMatmulInt8Params p{};
  KW_TRY(encode_factor(context, a.x, a.m, a.x_stride, a.k, KW_MATMUL_ROWS, &p.x));
  KW_TRY(encode_factor(context, a.weight, a.n, a.weight_stride, a.k, plan.width / plan.cluster, &p.weight));
  p.to = result_of(a);
  p.steps = static_cast<unsigned>(ratio_up(a.k, KW_MATMUL_DEPTH));
  p.rows = static_cast<unsigned>(plan.rows);
  p.columns = static_cast<unsigned>(plan.columns);
  p.group = kGroup;
  Launch how{static_cast<uint32_t>(plan.grid), KW_MATMUL_THREADS};
  how.shared = KW_MATMUL_SHARED;
  how.cluster = static_cast<uint32_t>(plan.cluster);
  how.overlap = true;
  Kernel& kernel = plan.cluster > 1 ? by_pair : by_single[plan.width / 128];
  return launch(context, kernel, how, stream, &p, sizeof p);
}

KwMatmulInt8AnyParams params_of(const MatmulInt8& a, int64_t tile) {
  KwMatmulInt8AnyParams p{};
  p.to = result_of(a);
  p.x = reinterpret_cast<const char*>(a.x);
  p.weight = reinterpret_cast<const char*>(a.weight);
  p.x_pitch = a.x_stride, p.weight_pitch = a.weight_stride;
  p.k = a.k;
  p.rows = static_cast<unsigned>(ratio_up(a.m, tile));
  p.columns = static_cast<unsigned>(ratio_up(a.n, tile));
  p.group = 2 * kGroup;
  return p;
}

// A launch counts its blocks in 31 bits; of more, each half of the rows is a launch.
kw_status run_blocks(const Context& context, void* stream, const MatmulInt8& a, bool tiles) {
  const int64_t tile = tiles ? int64_t{KW_MATMUL_TILE} : int64_t{KW_MATMUL_ANY};
  const int64_t columns = ratio_up(a.n, tile), blocks = ratio_up(a.m, tile) * columns;
  if (columns > kMaxBlocks)
    return fail(KW_ERROR_UNSUPPORTED, "kw_matmul_int8: n is %lld; a GPU is given at most %lld columns at once",
                (long long)a.n, (long long)(kMaxBlocks * tile));
  if (blocks > kMaxBlocks) {
    MatmulInt8 first = a, second = a;
    first.m = ratio_up(a.m / 2, tile) * tile;
    second.m = a.m - first.m;
    second.x = a.x + first.m * a.x_stride;
    second.x_scale = a.x_scale == nullptr ? nullptr : a.x_scale + first.m;
    second.y = static_cast<char*>(a.y) + first.m * a.y_stride * size_of(a.dtype);
    KW_TRY(run_blocks(context, stream, first, tiles));
    return run_blocks(context, stream, second, tiles);
  }
  const KwMatmulInt8AnyParams p = params_of(a, tile);
  const int threads = tiles ? int{KW_MATMUL_TILE_THREADS} : int{KW_MATMUL_ANY_THREADS};
  Launch how{static_cast<uint32_t>(blocks), static_cast<uint32_t>(threads)};
  how.shared = tiles ? KW_MATMUL_TILE_SHARED : 0;
  how.overlap = true;
  return launch(context, tiles ? by_tiles : by_any, how, stream, &p, sizeof p);
}

kw_status run_few(const Context& context, void* stream, const MatmulInt8& a) {
  const KwMatmulInt8AnyParams p = params_of(a, KW_MATMUL_FEW_COLUMNS);
  const int64_t blocks = few_blocks(p.columns, *context.device);
  Launch how{static_cast<uint32_t>(blocks), KW_MATMUL_FEW_WARPS * 32};
  how.overlap = true;
  return launch(context, by_few[a.m > 8], how, stream, &p, sizeof p);
}

kw_status run(const char* name, int32_t device, void* stream, const MatmulInt8& a) {
  KW_TRY(check(name, device, a));
  if (a.m == 0 || a.n == 0) return KW_OK;
  if (device == KW_CPU) return cpu::matmul_int8(a);
  Context context;
  KW_TRY(module_context(module, device, &context));
  const Way way = way_for(a, context.features);
  if (way == Way::kWarpgroups) return run_warpgroups(context, stream, a);
  if (way == Way::kFew) return run_few(context, stream, a);
  return run_blocks(context, stream, a, way == Way::kTile);
}

}  // namespace
}  // namespace kw

KW_API kw_status kw_matmul_int8(int32_t device, void* stream, void* y, int64_t y_stride, const int8_t* x,
                                int64_t x_stride, const int8_t* weight, int64_t weight_stride, const float* x_scale,
                                const float* weight_scale, const void* bias, int64_t m, int64_t n, int64_t k,
                                int32_t dtype, int32_t bias_dtype, double factor) {
  const kw::MatmulInt8 a{y,    x,        weight,   x_scale,       weight_scale,
                         bias, y_stride, x_stride, weight_stride, m,
                         n,    k,        dtype,    bias_dtype,    static_cast<float>(factor)};
  return kw::run("kw_matmul_int8", device, stream, a);
}
