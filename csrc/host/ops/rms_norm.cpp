// SPDX-License-Identifier: MIT
// kw_rms_norm and its backward pass: check their arguments, then run on the CPU or plan a launch of
// csrc/cuda/rms_norm.cu.
#include <kernelwright/rms_norm.h>

#include "../../cuda/include/norm_params.h"
#include "../error.h"
#include "../launch.h"
#include "norm_checks.h"
#include "norm_plan.h"

namespace kw {
namespace {

using namespace norm_plan;

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

KwNormParams params_of(const Norm& a, const Plan& plan) {
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

kw_status run_on_device(int32_t device, void* stream, const Norm& a) {
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

// The backward pass on a GPU plugs in here, and the size of its workspace. Without rows dweight, if wanted, is zero.
kw_status run_backward_on_device(int32_t device, void*, const NormBackward&) {
  return fail(KW_ERROR_UNSUPPORTED, "kw_rms_norm_backward: this build has it for the CPU only, not for device %d",
              device);
}

kw_status backward_workspace_on_device(int32_t device, int64_t, int64_t, int64_t*) {
  return fail(KW_ERROR_UNSUPPORTED,
              "kw_rms_norm_backward_workspace: this build has the operator for the CPU only, not for device %d",
              device);
}

kw_status backward_workspace(int32_t device, int64_t rows, int64_t cols, int64_t* bytes) {
  if (device != KW_CPU) return backward_workspace_on_device(device, rows, cols, bytes);
  *bytes = cpu::norm_backward_workspace(rows, cols, false);
  return KW_OK;
}

}  // namespace
}  // namespace kw

KW_API kw_status kw_rms_norm(int32_t device, void* stream, void* y, int64_t y_stride, void* sum, int64_t sum_stride,
                             const void* x, int64_t x_stride, const void* residual, int64_t residual_stride,
                             const void* weight, float* rstd, int64_t rows, int64_t cols, int32_t dtype,
                             int32_t weight_dtype, double eps) {
  constexpr const char* kName = "kw_rms_norm";
  KW_TRY(kw::norm_checks::check_device(kName, device));
  kw::Norm a{};
  a.y = y, a.y_stride = y_stride;
  a.sum = sum, a.sum_stride = sum_stride;
  a.x = x, a.x_stride = x_stride;
  a.residual = residual, a.residual_stride = residual_stride;
  a.weight = weight, a.rstd = rstd;
  a.rows = rows, a.cols = cols;
  a.dtype = dtype, a.weight_dtype = weight_dtype;
  a.eps = static_cast<float>(eps);
  KW_TRY(kw::norm_checks::check(kName, a, eps));
  if (rows == 0) return KW_OK;
  return device == KW_CPU ? kw::cpu::rms_norm(a) : kw::run_on_device(device, stream, a);
}

KW_API kw_status kw_rms_norm_backward_workspace(int32_t device, int64_t rows, int64_t cols, int64_t* bytes) {
  constexpr const char* kName = "kw_rms_norm_backward_workspace";
  KW_TRY(kw::norm_checks::check_device(kName, device));
  KW_TRY(kw::norm_checks::check_sizes(kName, rows, cols));
  if (bytes == nullptr) return kw::fail(KW_ERROR_INVALID_ARGUMENT, "%s: bytes is NULL", kName);
  return kw::backward_workspace(device, rows, cols, bytes);
}

KW_API kw_status kw_rms_norm_backward(int32_t device, void* stream, void* dx, int64_t dx_stride, void* dweight,
                                      const void* dy, int64_t dy_stride, const void* dsum, int64_t dsum_stride,
                                      const void* h, int64_t h_stride, const void* weight, const float* rstd,
                                      void* workspace, int64_t workspace_bytes, int64_t rows, int64_t cols,
                                      int32_t dtype, int32_t weight_dtype, double eps) {
  constexpr const char* kName = "kw_rms_norm_backward";
  KW_TRY(kw::norm_checks::check_device(kName, device));
  kw::NormBackward a{};
  a.dx = dx, a.dx_stride = dx_stride;
  a.dweight = dweight;
  a.dy = dy, a.dy_stride = dy_stride;
  a.dsum = dsum, a.dsum_stride = dsum_stride;
  a.h = h, a.h_stride = h_stride;
  a.weight = weight, a.rstd = rstd;
  a.workspace = workspace;
  a.rows = rows, a.cols = cols;
  a.dtype = dtype, a.weight_dtype = weight_dtype;
  a.eps = static_cast<float>(eps);
  KW_TRY(kw::norm_checks::check(kName, a, eps));
  if (kw::norm_checks::wants_weight_grads(a)) {
    int64_t needed = 0;
    KW_TRY(kw::backward_workspace(device, rows, cols, &needed));
    KW_TRY(kw::norm_checks::check_workspace(kName, workspace, workspace_bytes, needed));
  } else if (rows == 0) {
    return KW_OK;
  }
  return device == KW_CPU ? kw::cpu::rms_norm_backward(a) : kw::run_backward_on_device(device, stream, a);
}
