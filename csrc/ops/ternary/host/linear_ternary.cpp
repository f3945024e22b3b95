// SPDX-License-Identifier: MIT
// kw_linear_ternary: checks its arguments, then runs on the CPU or launches csrc/ops/ternary/linear_ternary.cu.
#include "ops/ternary/api/linear_ternary.h"

#include "ops/int8/host/rows_checks.h"
#include "ops/int8/host/rows_plan.h"
#include "ops/ternary/host/plan.h"

namespace kw {
namespace {

using namespace ternary_plan;
using rows_plan::aligned;

Module module{"linear_ternary"};
Kernel kernels[5] = {{"linear_ternary_16_float32"},
                     {"linear_ternary_16_float16"},
                     {"linear_ternary_16_bfloat16"},
                     {"linear_ternary_8_float16"},
                     {"linear_ternary_8_bfloat16"}};

// Of float32 there is one kernel for all rows.
Kernel& kernel_for(const Few& plan, int32_t dtype) { return kernels[dtype + (plan.tiles == 1 ? 2 : 0)]; }

kw_status check(const char* name, int32_t device, const LinearTernary& a) {
  const MatmulTernary& product = a.product;
  KW_TRY(check_float_type(name, product.dtype));
  const unsigned size = size_of(product.dtype);
  KW_TRY(rows_checks::check_norm(name, a.weight, product.k, product.dtype, a.weight_dtype, a.clamp, a.eps));
  KW_TRY(check_product(name, device, product, a.x, size));
  if (product.m == 0 || product.n == 0) return KW_OK;
  if (a.weight != nullptr) KW_TRY(check_pointer(name, "weight", a.weight, size_of(a.weight_dtype)));
  return a.residual == nullptr ? KW_OK : check_pointer(name, "residual", a.residual, size);
}

// The warps that share a row in quantize_rows_int8, whose bits these are to be.
unsigned warps_of_a_row(const Device& device, const MatmulTernary& a) {
  const rows_plan::Plan plan = rows_plan::plan_for(a.m, a.k, size_of(a.dtype), device);
  return plan.way == rows_plan::Way::kWarps ? 1 : static_cast<unsigned>(plan.threads / 32);
}

kw_status queue(const Context& context, void* stream, const LinearTernary& a, unsigned warps) {
  const MatmulTernary& product = a.product;
  const int64_t size = size_of(product.dtype), unit = 16 / size;
  const int64_t more = product.m * static_cast<int64_t>(KW_LINEAR_TERNARY_ROW);
  const Few plan = few_for(product, *context.device, context.features, product.dtype == KW_FLOAT32 ? 2 : 1, more);
  KwLinearTernaryParams p{};
  p.few = few_params(product, plan);
  p.few.x = static_cast<const char*>(a.x);
  p.few.x_pitch = a.x_stride * size;
  p.few.vectors = product.k % unit == 0 && aligned(a.x, p.few.x_pitch, product.m, 16);
  p.weight = static_cast<const char*>(a.weight);
  p.weight_vectors = p.few.vectors && aligned(a.weight, 0, 1, 16);
  p.weight_is_float = a.weight_dtype == KW_FLOAT32;
  p.residual = static_cast<const char*>(a.residual);
  p.residual_pitch = a.residual_stride * size;
  p.clamp = a.clamp, p.eps = a.eps;
  p.warps = warps;
  const Launch how = few_launch(plan);
  return launch(context, kernel_for(plan, product.dtype), how, stream, &p, sizeof p);
}

kw_status run_on_device(const char* name, int32_t device, void* stream, const LinearTernary& a) {
  const MatmulTernary& product = a.product;
  KW_TRY(check_counts(name, product.m, product.n, product.k));
  Context context;
  KW_TRY(module_context(module, device, &context));
  KW_TRY(check_features(name, context));
  const int64_t size = size_of(product.dtype);
  const unsigned warps = warps_of_a_row(*context.device, product);
  for (int64_t first = 0; first < product.m; first += KW_LINEAR_TERNARY_ROWS) {
    LinearTernary part = a;
    const int64_t left = product.m - first;
    part.product.m = left < KW_LINEAR_TERNARY_ROWS ? left : int64_t{KW_LINEAR_TERNARY_ROWS};
    part.product.y = static_cast<char*>(product.y) + first * product.y_stride * size;
    part.x = static_cast<const char*>(a.x) + first * a.x_stride * size;
    if (a.residual != nullptr) part.residual = static_cast<const char*>(a.residual) + first * a.residual_stride * size;
    KW_TRY(queue(context, stream, part, warps));
  }
  return KW_OK;
}

kw_status run(const char* name, int32_t device, void* stream, const LinearTernary& a) {
  KW_TRY(check(name, device, a));
  if (a.product.m == 0 || a.product.n == 0) return KW_OK;
  return device == KW_CPU ? cpu::linear_ternary(a) : run_on_device(name, device, stream, a);
}

}  // namespace
}  // namespace kw

KW_API kw_status kw_linear_ternary(int32_t device, void* stream, void* y, int64_t y_stride, const void* x,
                                   int64_t x_stride, const void* weight, const uint8_t* packed, const float* scale,
                                   int64_t scales, const void* bias, const void* residual, int64_t residual_stride,
                                   int64_t m, int64_t n, int64_t k, int32_t dtype, int32_t weight_dtype, double clamp,
                                   double eps) {
  const kw::LinearTernary a{
      {y, nullptr, packed, nullptr, scale, bias, y_stride, 0, scale == nullptr ? 1 : scales, m, n, k, dtype},
      x,
      weight,
      residual,
      x_stride,
      residual_stride,
      weight_dtype,
      static_cast<float>(clamp),
      static_cast<float>(eps)};
  return kw::run("kw_linear_ternary", device, stream, a);
}
