// SPDX-License-Identifier: MIT
// kw_rms_norm and its backward pass: check their arguments, then run on the CPU or plan a launch of
// csrc/cuda/rms_norm.cu.
#include <kernelwright/rms_norm.h>

#include "../error.h"
#include "norm_backward_launch.h"
#include "norm_checks.h"
#include "norm_launch.h"

namespace kw {
namespace {

Module module{"rms_norm"};
Kernel kernels[3][norm_plan::kShapes] = KW_NORM_KERNELS("rms_norm");
NormBackwardKernels backward_kernels = KW_NORM_BACKWARD_KERNELS("rms_norm");

kw_status backward_workspace(int32_t device, int64_t rows, int64_t cols, int64_t* bytes) {
  if (device != KW_CPU) return norm_backward_workspace(module, device, rows, cols, false, bytes);
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
  return device == KW_CPU ? kw::cpu::rms_norm(a) : kw::launch_norm(kName, kw::module, kw::kernels, device, stream, a);
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
  if (device == KW_CPU) return kw::cpu::rms_norm_backward(a);
  return kw::launch_norm_backward(kName, kw::module, kw::backward_kernels, device, stream, a);
}
