// SPDX-License-Identifier: MIT
// kw_matmul_int8: checks its arguments, then runs on the CPU or plans a launch of csrc/ops/int8/matmul_int8.cu.
#include "ops/int8/api/matmul_int8.h"

#include "core/checks.h"
#include "ops/int8/host/byte_product.h"
#include "ops/int8/host/matmul_plan.h"

namespace kw {
namespace {

using namespace matmul_int8_plan;

constexpr int64_t kMostDeep = 131071, kMaxBlocks = 0x7fffffff;

Module module{"matmul_int8"};
Kernel by_single[3] = {{"matmul_int8_single_64"}, {"matmul_int8_single_128"}, {"matmul_int8_single_256"}};
Kernel by_pair{"matmul_int8_pair_256"};
Kernel by_few[2] = {{"matmul_int8_few_1"}, {"matmul_int8_few_2"}};
Kernel by_tiles{"matmul_int8_tile"}, by_any{"matmul_int8_any"};

kw_status check_types(const char* name, const ByteProduct& a) {
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
  return check_bias_type(name, a);
}

kw_status check(const char* name, int32_t device, const ByteProduct& a) {
  KW_TRY(check_device(name, device));
  KW_TRY(check_types(name, a));
  KW_TRY(check_sizes(name, a));
  if (a.k > kMostDeep)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: k is %lld; sums of more than %lld products may not fit into int32",
                name, (long long)a.k, (long long)kMostDeep);
  return check_pointers(name, a);
}

kw_status run_warpgroups(const Context& context, void* stream, const ByteProduct& a) {
  const Plan plan = plan_for(a, *context.device);
  KwMatmulInt8Params p{};
  KW_TRY(encode_product(context, a, plan, &p));
  Kernel& kernel = plan.cluster > 1 ? by_pair : by_single[plan.width / 128];
  return launch(context, kernel, launch_of(plan), stream, &p, sizeof p);
}

KwMatmulInt8AnyParams params_of(const ByteProduct& a, int64_t tile) {
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
kw_status run_blocks(const Context& context, void* stream, const ByteProduct& a, bool tiles) {
  const int64_t tile = tiles ? int64_t{KW_MATMUL_TILE} : int64_t{KW_MATMUL_ANY};
  const int64_t columns = ratio_up(a.n, tile), blocks = ratio_up(a.m, tile) * columns;
  if (columns > kMaxBlocks)
    return fail(KW_ERROR_UNSUPPORTED, "kw_matmul_int8: n is %lld; a GPU is given at most %lld columns at once",
                (long long)a.n, (long long)(kMaxBlocks * tile));
  if (blocks > kMaxBlocks) {
    const int64_t half = ratio_up(a.m / 2, tile) * tile;
    KW_TRY(run_blocks(context, stream, rows_of_product(a, 0, half), tiles));
    return run_blocks(context, stream, rows_of_product(a, half, a.m - half), tiles);
  }
  const KwMatmulInt8AnyParams p = params_of(a, tile);
  const int threads = tiles ? int{KW_MATMUL_TILE_THREADS} : int{KW_MATMUL_ANY_THREADS};
  Launch how{static_cast<uint32_t>(blocks), static_cast<uint32_t>(threads)};
  how.shared = tiles ? KW_MATMUL_TILE_SHARED : 0;
  how.overlap = true;
  return launch(context, tiles ? by_tiles : by_any, how, stream, &p, sizeof p);
}

kw_status run_few(const Context& context, void* stream, const ByteProduct& a) {
  const KwMatmulInt8AnyParams p = params_of(a, KW_MATMUL_FEW_COLUMNS);
  const int64_t blocks = few_blocks(p.columns, *context.device);
  Launch how{static_cast<uint32_t>(blocks), KW_MATMUL_FEW_WARPS * 32};
  how.overlap = true;
  return launch(context, by_few[a.m > 8], how, stream, &p, sizeof p);
}

kw_status run(const char* name, int32_t device, void* stream, const ByteProduct& a) {
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
  const kw::ByteProduct a{y,    x,        weight,   x_scale,       weight_scale,
                          bias, y_stride, x_stride, weight_stride, m,
                          n,    k,        dtype,    bias_dtype,    static_cast<float>(factor),
                          0};
  return kw::run("kw_matmul_int8", device, stream, a);
}
