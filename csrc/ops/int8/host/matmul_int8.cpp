// SPDX-License-Identifier: MIT
// kw_matmul_int8: checks its arguments, then runs on the CPU or plans a launch of csrc/ops/int8/matmul_int8.cu.
#include "ops/int8/api/matmul_int8.h"

#include "core/checks.h"
#include "ops/int8/host/byte_product.h"

namespace kw {
namespace {

constexpr int64_t kMostDeep = 131071;

Module module{"matmul_int8"};
ByteKernels kernels{{{"matmul_int8_single_64"}, {"matmul_int8_single_128"}, {"matmul_int8_single_256"}},
                    {"matmul_int8_pair_256"},
                    {{"matmul_int8_few_1"}, {"matmul_int8_few_2"}},
                    {"matmul_int8_tile"},
                    {"matmul_int8_any"},
                    {KW_FEATURE_INT8_MMA | KW_FEATURE_CP_ASYNC, KW_FEATURE_INT8_MMA | KW_FEATURE_CP_ASYNC}};

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

kw_status run(const char* name, int32_t device, void* stream, const ByteProduct& a) {
  KW_TRY(check(name, device, a));
  if (a.m == 0 || a.n == 0) return KW_OK;
  if (device == KW_CPU) return cpu::matmul_int8(a);
  Context context;
  KW_TRY(module_context(module, device, &context));
  return run_product(name, context, stream, a, &kernels);
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
