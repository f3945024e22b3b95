// SPDX-License-Identifier: MIT
// kw_linear, and what kw_gated_linear has in common with it: checks of arguments, then a run on the CPU or a launch of
// csrc/ops/linear/linear.cu.
#include "ops/linear/api/linear.h"

#include "core/checks.h"
#include "core/tensor.h"
#include "core/tensor_map.h"
#include "device/activation.h"
#include "device/any_tile.h"
#include "ops/linear/host/plan.h"

namespace kw {
namespace {

using namespace linear_plan;

constexpr int64_t kMaxBlocks = 0x7fffffff;

static_assert(KW_NO_ACTIVATION == int{KW_ACTIVATION_NONE} && KW_RELU == int{KW_ACTIVATION_RELU} &&
                  KW_SQUARED_RELU == int{KW_ACTIVATION_SQUARED_RELU} && KW_SILU == int{KW_ACTIVATION_SILU} &&
                  KW_GELU == int{KW_ACTIVATION_GELU} && KW_GELU_TANH == int{KW_ACTIVATION_GELU_TANH},
              "kernels number activations as the ABI does");

#define KW_TYPES(name) {{name "_float16"}, {name "_bfloat16"}}

Module modules[2] = {{"linear"}, {"gated_linear"}};
Kernel kernels[2][2][2] = {{KW_TYPES("linear_single"), KW_TYPES("linear_pair")},
                           {KW_TYPES("gated_linear_single"), KW_TYPES("gated_linear_pair")}};
Kernel warps_kernels[2][2] = {KW_TYPES("linear_warps"), KW_TYPES("gated_linear_warps")};
Kernel any_kernels[2][3] = {
    {{"linear_any_float32"}, {"linear_any_float16"}, {"linear_any_bfloat16"}},
    {{"gated_linear_any_float32"}, {"gated_linear_any_float16"}, {"gated_linear_any_bfloat16"}}};

kw_status check_numbers(const char* name, int32_t device, const Linear& a) {
  KW_TRY(check_device(name, device));
  KW_TRY(check_float_type(name, a.dtype));
  if (a.activation < KW_NO_ACTIVATION || a.activation > KW_GELU_TANH)
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "%s: activation is %d; it must be one from KW_NO_ACTIVATION (0) to KW_GELU_TANH (%d)", name,
                a.activation, KW_GELU_TANH);
  KW_TRY(check_size(name, "m", a.m));
  KW_TRY(check_size(name, "n", a.n));
  KW_TRY(check_size(name, "k", a.k));
  const int64_t widest = a.n > a.k ? a.n : a.k;
  if ((a.k > 0 && a.n > kMaxElements / 2 / a.k) || (widest > 0 && a.m > kMaxElements / widest))
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "%s: m, n and k are %lld, %lld and %lld; no memory holds such matrices. Look at how they were computed",
                name, (long long)a.m, (long long)a.n, (long long)a.k);
  return KW_OK;
}

kw_status check(const char* name, int32_t device, const Linear& a) {
  KW_TRY(check_numbers(name, device, a));
  if (a.m == 0 || a.n == 0) return KW_OK;
  const unsigned size = size_of(a.dtype);
  KW_TRY(check_pointer(name, "y", a.y, size));
  KW_TRY(check_apart(name, "y", a.y_stride, a.m, a.n));
  if (a.bias != nullptr) KW_TRY(check_pointer(name, "bias", a.bias, size));
  if (a.k == 0) return KW_OK;
  KW_TRY(check_pointer(name, "x", a.x, size));
  return check_pointer(name, "weight", a.weight, size);
}

// A factor's boxes: all of the rows that it has, 64 of k.
kw_status encode_factor(const Context& context, const void* from, int32_t dtype, int64_t rows, int64_t stride,
                        int64_t k, int64_t box, void* map) {
  const int64_t pitch = rows > 1 ? stride * 2 : ratio_up(k * 2, kAlignment) * kAlignment;
  return encode(context, matrix_map(from, dtype, rows, k, pitch, box, KW_LINEAR_DEPTH, Swizzle::k128), map);
}

// Whether four results are stored at once.
bool for_vectors(const Linear& a) {
  return a.n % 4 == 0 && reinterpret_cast<uintptr_t>(a.y) % 8 == 0 && (a.m == 1 || a.y_stride % 4 == 0);
}

kw_status run_tiles(const Context& context, void* stream, const Linear& a) {
  const Plan plan = plan_for(a, *context.device);
  KwLinearParams p{};
  KW_TRY(encode_factor(context, a.x, a.dtype, a.m, a.x_stride, a.k, KW_LINEAR_ROWS, &p.x));
  const int64_t boxes = a.gated ? 2 : plan.cluster;  // of a tile's rows of the weight
  KW_TRY(encode_factor(context, a.weight, a.dtype, a.weight_rows(), a.weight_stride, a.k, KW_LINEAR_COLUMNS / boxes,
                       &p.weight));
  p.y = static_cast<char*>(a.y);
  p.bias = static_cast<const char*>(a.bias);
  p.y_pitch = a.y_stride * 2;
  p.m = static_cast<unsigned>(a.m);
  p.n = static_cast<unsigned>(a.n);
  p.steps = static_cast<unsigned>(ratio_up(a.k, KW_LINEAR_DEPTH));
  p.rows = static_cast<unsigned>(plan.rows);
  p.columns = static_cast<unsigned>(plan.columns);
  p.group = kGroup;
  p.activation = a.activation;
  p.vectors = for_vectors(a);
  Launch how{static_cast<uint32_t>(plan.grid), KW_LINEAR_THREADS};
  how.shared = KW_LINEAR_SHARED;
  how.cluster = static_cast<uint32_t>(plan.cluster);
  how.overlap = true;
  Kernel& kernel = kernels[a.gated][plan.cluster - 1][a.dtype - KW_FLOAT16];
  return launch(context, kernel, how, stream, &p, sizeof p);
}

KwLinearAnyParams params_of(const Linear& a) {
  const int64_t size = size_of(a.dtype);
  KwLinearAnyParams p{};
  p.y = static_cast<char*>(a.y);
  p.x = static_cast<const char*>(a.x);
  p.weight = static_cast<const char*>(a.weight);
  p.bias = static_cast<const char*>(a.bias);
  p.y_pitch = a.y_stride * size;
  p.x_pitch = a.x_stride * size;
  p.weight_pitch = a.weight_stride * size;
  p.m = a.m, p.n = a.n, p.k = a.k;
  p.activation = a.activation;
  p.vectors = for_vectors(a);
  return p;
}

kw_status run_warps(const Context& context, void* stream, const Linear& a) {
  const Plan plan = plan_warps(a);
  KwLinearAnyParams p = params_of(a);
  p.rows = static_cast<unsigned>(plan.rows);
  p.columns = static_cast<unsigned>(plan.columns);
  p.group = 2 * kGroup;
  Launch how{static_cast<uint32_t>(plan.grid), KW_LINEAR_WARPS_THREADS};
  how.shared = KW_LINEAR_WARPS_SHARED;
  how.overlap = true;
  return launch(context, warps_kernels[a.gated][a.dtype - KW_FLOAT16], how, stream, &p, sizeof p);
}

// A launch counts its blocks in 31 bits; of more, each half of the rows is a launch.
kw_status run_any(const char* name, const Context& context, void* stream, const Linear& a) {
  const int64_t size = size_of(a.dtype), columns = ratio_up(a.n, KW_ANY_TILE),
                blocks = ratio_up(a.m, KW_ANY_TILE) * columns;
  if (columns > kMaxBlocks)
    return fail(KW_ERROR_UNSUPPORTED, "%s: n is %lld; a GPU is given at most %lld columns at once", name,
                (long long)a.n, (long long)(kMaxBlocks * KW_ANY_TILE));
  if (blocks > kMaxBlocks) {
    Linear first = a, second = a;
    first.m = ratio_up(a.m / 2, KW_ANY_TILE) * KW_ANY_TILE;
    second.m = a.m - first.m;
    second.x = static_cast<const char*>(a.x) + first.m * a.x_stride * size;
    second.y = static_cast<char*>(a.y) + first.m * a.y_stride * size;
    KW_TRY(run_any(name, context, stream, first));
    return run_any(name, context, stream, second);
  }
  KwLinearAnyParams p = params_of(a);
  p.columns = static_cast<unsigned>(columns);
  const Launch how{static_cast<uint32_t>(blocks), static_cast<uint32_t>(KW_ANY_THREADS)};
  return launch(context, any_kernels[a.gated][a.dtype], how, stream, &p, sizeof p);
}

}  // namespace

kw_status run_linear(const char* name, int32_t device, void* stream, const Linear& a,
                     kw_status (*on_cpu)(const Linear&)) {
  KW_TRY(check(name, device, a));
  if (a.m == 0 || a.n == 0) return KW_OK;
  if (device == KW_CPU) return on_cpu(a);
  Context context;
  KW_TRY(module_context(modules[a.gated], device, &context));
  if (fits(a, alignment_of(a), context.features)) return run_tiles(context, stream, a);
  if (fits_warps(a, alignment_of(a), context.features)) return run_warps(context, stream, a);
  return run_any(name, context, stream, a);
}

kw_status read_linear(const char* name, const kw_tensor* y, const kw_tensor* x, const kw_tensor* weight,
                      const kw_tensor* bias, Linear* a, int32_t* device) {
  kw_tensor from, to, of;
  TensorRows rows, results, columns;
  KW_TRY(read_tensor(name, "x", x, &from));
  KW_TRY(rows_of(name, "x", from, &rows));
  KW_TRY(read_tensor(name, "y", y, &to));
  KW_TRY(rows_beside(name, "y", to, from, to.dims > 0 ? to.sizes[to.dims - 1] : 0, &results));
  KW_TRY(read_tensor(name, "weight", weight, &of));
  KW_TRY(rows_of(name, "weight", of, &columns));
  const int64_t wanted = a->gated ? 2 * results.cols : results.cols;
  if (of.dims != 2 || columns.count != wanted || columns.cols != rows.cols || of.dtype != from.dtype ||
      of.device != from.device)
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "%s: weight must be [%lld, %lld], of the type of x and where x is; it has %d dimensions, %lld rows of "
                "%lld elements of type %d, on device %d",
                name, (long long)wanted, (long long)rows.cols, (int)of.dims, (long long)columns.count,
                (long long)columns.cols, of.dtype, of.device);
  if (bias != nullptr) {
    kw_tensor found;
    KW_TRY(read_tensor(name, "bias", bias, &found));
    KW_TRY(check_flat(name, "bias", found, from, from.dtype, wanted, results.count > 0));
    a->bias = found.data;
  }
  a->y = to.data, a->y_stride = results.stride;
  a->x = from.data, a->x_stride = rows.stride;
  a->weight = of.data, a->weight_stride = columns.stride;
  a->m = rows.count, a->n = results.cols, a->k = rows.cols;
  a->dtype = from.dtype;
  *device = from.device;
  return KW_OK;
}

kw_status linear_fits(const char* name, int32_t device, int64_t alignment, const Linear& a, int32_t* yes) {
  KW_TRY(check_numbers(name, device, a));
  if (yes == nullptr) return fail(KW_ERROR_INVALID_ARGUMENT, "%s: yes is NULL", name);
  *yes = 0;
  if (device == KW_CPU || a.m == 0 || a.n == 0) return KW_OK;
  Context context;
  KW_TRY(module_context(modules[a.gated], device, &context));
  *yes = (fits(a, alignment, context.features) && pays(a, *context.device)) || small(a);
  return KW_OK;
}

}  // namespace kw

KW_API kw_status kw_linear(int32_t device, void* stream, void* y, int64_t y_stride, const void* x, int64_t x_stride,
                           const void* weight, int64_t weight_stride, const void* bias, int64_t m, int64_t n, int64_t k,
                           int32_t activation, int32_t dtype) {
  const kw::Linear a{y, x, weight, bias, y_stride, x_stride, weight_stride, m, n, k, activation, dtype, false};
  return kw::run_linear("kw_linear", device, stream, a, kw::cpu::linear);
}

KW_API kw_status kw_linear_tensors(void* stream, const kw_tensor* y, const kw_tensor* x, const kw_tensor* weight,
                                   const kw_tensor* bias, int32_t activation) {
  constexpr const char* kName = "kw_linear_tensors";
  kw::Linear a{};
  int32_t device = KW_CPU;
  KW_TRY(kw::read_linear(kName, y, x, weight, bias, &a, &device));
  a.activation = activation;
  return kw::run_linear(kName, device, stream, a, kw::cpu::linear);
}

KW_API kw_status kw_linear_fits(int32_t device, int64_t m, int64_t n, int64_t k, int64_t alignment, int32_t dtype,
                                int32_t* yes) {
  const kw::Linear a{nullptr, nullptr, nullptr, nullptr, n, k, k, m, n, k, KW_NO_ACTIVATION, dtype, false};
  return kw::linear_fits("kw_linear_fits", device, alignment, a, yes);
}
