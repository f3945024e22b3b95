// SPDX-License-Identifier: MIT
// kw_matmul_fp8: checks its arguments, then runs on the CPU or plans a launch of csrc/ops/fp8/matmul_fp8.cu.
#include "ops/fp8/host/matmul_fp8.h"

#include "core/checks.h"
#include "device/activation.h"
#include "ops/fp8/api/matmul_fp8.h"
#include "ops/int8/host/byte_product.h"

namespace kw {
namespace {

using namespace matmul_int8_plan;

Module module{"matmul_fp8"};
ByteKernels kernels{{{"matmul_fp8_single_64"}, {"matmul_fp8_single_128"}, {"matmul_fp8_single_256"}},
                    {"matmul_fp8_pair_256"},
                    {{"matmul_fp8_few_1"}, {"matmul_fp8_few_2"}},
                    {"matmul_fp8_tile"},
                    {"matmul_fp8_any"},
                    {KW_FEATURE_BF16_MMA | KW_FEATURE_CP_ASYNC, KW_FEATURE_FP8_MMA | KW_FEATURE_CP_ASYNC}};

kw_status check(const char* name, int32_t device, const ByteProduct& a) {
  KW_TRY(check_device(name, device));
  KW_TRY(check_float_type(name, a.dtype));
  if (a.activation < KW_ACTIVATION_NONE || a.activation > KW_ACTIVATION_GELU_TANH)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: activation is %d; it must be a number from 0 to %d, as in linear.h",
                name, a.activation, int{KW_ACTIVATION_GELU_TANH});
  KW_TRY(check_bias_type(name, a));
  KW_TRY(check_sizes(name, a));
  return check_pointers(name, a);
}

// One launch is all that such a call takes.
bool small(const ByteProduct& a) {
  constexpr int64_t kMostDeep = 128, kMostResults = 65536;
  return a.k <= kMostDeep && a.n <= kMostResults && a.m <= kMostResults && a.m * a.n <= kMostResults;
}

kw_status run(const char* name, int32_t device, void* stream, const ByteProduct& a) {
  KW_TRY(check(name, device, a));
  if (a.m == 0 || a.n == 0) return KW_OK;
  if (device == KW_CPU) return cpu::matmul_fp8(a);
  Context context;
  KW_TRY(module_context(module, device, &context));
  return run_product(name, context, stream, a, &kernels);
}

}  // namespace
}  // namespace kw

KW_API kw_status kw_matmul_fp8(int32_t device, void* stream, void* y, int64_t y_stride, const void* x, int64_t x_stride,
                               const void* weight, int64_t weight_stride, const float* x_scale,
                               const float* weight_scale, const void* bias, int64_t m, int64_t n, int64_t k,
                               int32_t activation, int32_t dtype, int32_t bias_dtype) {
  const kw::ByteProduct a{y,
                          static_cast<const int8_t*>(x),
                          static_cast<const int8_t*>(weight),
                          x_scale,
                          weight_scale,
                          bias,
                          y_stride,
                          x_stride,
                          weight_stride,
                          m,
                          n,
                          k,
                          dtype,
                          bias_dtype,
                          1.0f,
                          activation};
  return kw::run("kw_matmul_fp8", device, stream, a);
}

KW_API kw_status kw_matmul_fp8_fits(int32_t device, int64_t m, int64_t n, int64_t k, int64_t alignment, int32_t* yes) {
  constexpr const char* kName = "kw_matmul_fp8_fits";
  KW_TRY(kw::check_pointer(kName, "yes", yes, 4));
  kw::ByteProduct a{};
  a.m = m, a.n = n, a.k = k;
  KW_TRY(kw::check_device(kName, device));
  KW_TRY(kw::check_sizes(kName, a));
  a.x_stride = a.weight_stride = kw::ratio_up(k, kw::kAlignment) * kw::kAlignment;
  *yes = 1;
  if (device == KW_CPU || m == 0 || n == 0 || kw::small(a)) return KW_OK;
  kw::Context context;
  KW_TRY(kw::module_context(kw::module, device, &context));
  *yes = alignment % kw::kAlignment == 0 && kw::way_for(a, context.features, kw::kernels.needs) != kw::Way::kAny;
  return KW_OK;
}
