// SPDX-License-Identifier: MIT
// kw_rms_norm: checks its arguments, then runs on the CPU or plans a launch of csrc/cuda/rms_norm.cu.
#include "rms_norm.h"

#include <kernelwright/rms_norm.h>

#include "../../cuda/include/norm_params.h"
#include "../error.h"
#include "../launch.h"
#include "norm_plan.h"

namespace kw {
namespace {

using namespace norm_plan;

constexpr int64_t kMaxCols = 65536;
constexpr int64_t kMaxElements = int64_t{1} << 57;  // more than there are addresses; far from an overflow
constexpr int64_t kMaxGrid = 0x7fffffff;

#define KW_NAMES(type)                                                                                              \
  {                                                                                                                 \
    {"rms_norm_row_" type}, {"rms_norm_row_add_" type}, {"rms_norm_shifted_" type}, {"rms_norm_shifted_add_" type}, \
        {"rms_norm_narrow_" type}, {"rms_norm_narrow_add_" type}, {"rms_norm_flat_" type},                          \
        {"rms_norm_flat_add_" type}, {"rms_norm_stream_" type}, {"rms_norm_stream_add_" type},                      \
        {"rms_norm_scalar_" type}, {                                                                                \
      "rms_norm_trickle_" type                                                                                      \
    }                                                                                                               \
  }

Module module{"rms_norm"};
Kernel kernels[3][kShapes] = {KW_NAMES("float32"), KW_NAMES("float16"), KW_NAMES("bfloat16")};

kw_status check_types(const RmsNorm& a, double eps) {
  if (a.dtype != KW_FLOAT32 && a.dtype != KW_FLOAT16 && a.dtype != KW_BFLOAT16)
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "kw_rms_norm: dtype is %d; it must be KW_FLOAT32 (0), KW_FLOAT16 (1) or KW_BFLOAT16 (2)", a.dtype);
  if (a.weight != nullptr && a.weight_dtype != a.dtype && a.weight_dtype != KW_FLOAT32)
    return fail(KW_ERROR_INVALID_ARGUMENT, "kw_rms_norm: weight_dtype is %d; it must be dtype (%d) or KW_FLOAT32 (0)",
                a.weight_dtype, a.dtype);
  if (!(eps >= 0.0 && eps <= 3e38))
    return fail(KW_ERROR_INVALID_ARGUMENT, "kw_rms_norm: eps is %g; it must be a finite float32 that is not negative",
                eps);
  return KW_OK;
}

kw_status check_shape(const RmsNorm& a) {
  if (a.rows < 0)
    return fail(KW_ERROR_INVALID_ARGUMENT, "kw_rms_norm: rows is %lld; it must not be negative", (long long)a.rows);
  if (a.cols < 1 || a.cols > kMaxCols)
    return fail(KW_ERROR_INVALID_ARGUMENT, "kw_rms_norm: cols is %lld; it must be 1 to %lld", (long long)a.cols,
                (long long)kMaxCols);
  if (a.rows > kMaxElements / a.cols)
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "kw_rms_norm: rows is %lld; no memory holds so many rows of %lld elements. Look at how it was computed",
                (long long)a.rows, (long long)a.cols);
  if (a.rows == 0) return KW_OK;
  if (a.x == nullptr || a.y == nullptr)
    return fail(KW_ERROR_INVALID_ARGUMENT, "kw_rms_norm: %s is NULL; only residual, sum, weight and rstd may be",
                a.x == nullptr ? "x" : "y");
  if ((a.residual == nullptr) != (a.sum == nullptr))
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "kw_rms_norm: %s is given without %s; both or neither (sum may be residual itself)",
                a.sum == nullptr ? "residual" : "sum", a.sum == nullptr ? "sum" : "residual");
  return KW_OK;
}

kw_status check_tensor(const RmsNorm& a, const char* name, const void* data, int64_t stride, bool written) {
  if (data == nullptr) return KW_OK;
  const unsigned size = size_of(a.dtype);
  if (reinterpret_cast<uintptr_t>(data) % size != 0)
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "kw_rms_norm: %s is at %p; its elements of %u bytes need an address that is a multiple of %u", name,
                data, size, size);
  const int64_t distance = stride < 0 ? -stride : stride;
  if (written && a.rows > 1 && distance < a.cols)
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "kw_rms_norm: %s_stride is %lld; rows of %lld elements that are written must not overlap", name,
                (long long)stride, (long long)a.cols);
  return KW_OK;
}

kw_status check(const RmsNorm& a, double eps) {
  KW_TRY(check_types(a, eps));
  KW_TRY(check_shape(a));
  if (a.rows == 0) return KW_OK;
  KW_TRY(check_tensor(a, "x", a.x, a.x_stride, false));
  KW_TRY(check_tensor(a, "residual", a.residual, a.residual_stride, false));
  KW_TRY(check_tensor(a, "y", a.y, a.y_stride, true));
  KW_TRY(check_tensor(a, "sum", a.sum, a.sum_stride, true));
  if (reinterpret_cast<uintptr_t>(a.weight) % size_of(a.weight_dtype) != 0)
    return fail(KW_ERROR_INVALID_ARGUMENT, "kw_rms_norm: weight is at %p, which is no address of elements of %u bytes",
                a.weight, size_of(a.weight_dtype));
  if (reinterpret_cast<uintptr_t>(a.rstd) % sizeof(float) != 0)
    return fail(KW_ERROR_INVALID_ARGUMENT, "kw_rms_norm: rstd is at %p, which is no address of float32", (void*)a.rstd);
  return KW_OK;
}

KwNormParams params_of(const RmsNorm& a, const Plan& plan) {
  const int64_t size = size_of(a.dtype);
  KwNormParams p{};
  p.x = static_cast<const char*>(a.x);
  p.residual = static_cast<const char*>(a.residual);
  p.weight = static_cast<const char*>(a.weight);
  p.y = static_cast<char*>(a.y);
  p.sum = static_cast<char*>(a.sum);
  p.rstd = a.rstd;
  p.x_pitch = a.x_stride * size;
  p.residual_pitch = a.residual_stride * size;
  p.y_pitch = a.y_stride * size;
  p.sum_pitch = a.sum_stride * size;
  p.rows = a.rows;
  p.cols = static_cast<int>(a.cols);
  p.weight_kind = a.weight == nullptr         ? KW_WEIGHT_NONE
                  : a.weight_dtype == a.dtype ? KW_WEIGHT_LIKE_X
                                              : KW_WEIGHT_FLOAT32;
  p.inverse_cols = 1.0f / static_cast<float>(a.cols);
  p.eps = a.eps;
  p.group = plan.group;
  p.row_is_a_warp = plan.row_is_a_warp;
  p.slots = plan.slots;
  p.cluster_log2 = plan.cluster_log2;
  p.large = plan.large;
  p.rows_a_block = static_cast<int>(plan.rows_a_block);
  p.cols_magic = static_cast<unsigned>(ratio_up(int64_t{1} << 32, a.cols));  // not used with one column
  return p;
}

kw_status run_on_device(int32_t device, void* stream, const RmsNorm& a) {
  Context context;
  KW_TRY(module_context(module, device, &context));
  const Plan plan = plan_for(a, *context.device, context.features);
  const int64_t blocks = ((a.rows + plan.rows_a_block - 1) / plan.rows_a_block) << plan.cluster_log2;
  if (blocks > kMaxGrid)
    return fail(KW_ERROR_UNSUPPORTED,
                "kw_rms_norm: %lld rows of %lld columns need %lld blocks; a launch holds %lld. Split the rows",
                (long long)a.rows, (long long)a.cols, (long long)blocks, (long long)kMaxGrid);
  Launch how;
  how.grid = static_cast<uint32_t>(blocks);
  how.block = static_cast<uint32_t>(plan.threads);
  how.cluster = 1u << plan.cluster_log2;
  how.overlap = true;
  const KwNormParams params = params_of(a, plan);
  return launch(context, kernels[a.dtype][plan.shape], how, stream, &params, sizeof params);
}

}  // namespace
}  // namespace kw

KW_API kw_status kw_rms_norm(int32_t device, void* stream, void* y, int64_t y_stride, void* sum, int64_t sum_stride,
                             const void* x, int64_t x_stride, const void* residual, int64_t residual_stride,
                             const void* weight, float* rstd, int64_t rows, int64_t cols, int32_t dtype,
                             int32_t weight_dtype, double eps) {
  const kw::RmsNorm args{y,    sum,      x,          residual,     weight,
                         rstd, y_stride, sum_stride, x_stride,     residual_stride,
                         rows, cols,     dtype,      weight_dtype, static_cast<float>(eps)};
  if (device < KW_CPU)
    return kw::fail(KW_ERROR_INVALID_ARGUMENT,
                    "kw_rms_norm: device is %d; it must be KW_CPU (-1) or the number of a GPU", device);
  KW_TRY(kw::check(args, eps));
  if (rows == 0) return KW_OK;
  if (device == KW_CPU) return kw::cpu::rms_norm(args);
  return kw::run_on_device(device, stream, args);
}
