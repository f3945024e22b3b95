// SPDX-License-Identifier: MIT
#include "ops/norm/api/rms_norm.h"

#include "core/error.h"
#include "ops/norm/torch/norm.h"

namespace kw::torch {
namespace {

struct RmsNorm {
  static constexpr int kCount = 1;
  static kw_status forward(void* stream, const kw_tensor* y, const kw_tensor* sum, const kw_tensor* x,
                           const kw_tensor* residual, const kw_tensor* weight, const kw_tensor*, double eps) {
    return kw_rms_norm_tensors(stream, y, sum, x, residual, weight, eps);
  }
  static kw_status workspace(int32_t device, int64_t rows, int64_t cols, int64_t* bytes) {
    return kw_rms_norm_backward_workspace(device, rows, cols, bytes);
  }
  static kw_status backward(void* stream, const kw_tensor* dx, const kw_tensor* const* results, const kw_tensor* dy,
                            const kw_tensor* dsum, const kw_tensor* h, const kw_tensor* const* parameters,
                            void* workspace, int64_t bytes, double eps) {
    return kw_rms_norm_backward_tensors(stream, dx, results[0], dy, dsum, h, parameters[0], workspace, bytes, eps);
  }
};

kw_status rms_norm(Call& call) { return norm_forward<RmsNorm>(call, false, false); }
kw_status rms_norm_residual(Call& call) { return norm_forward<RmsNorm>(call, true, false); }
kw_status rms_norm_residual_(Call& call) { return norm_forward<RmsNorm>(call, true, true); }
kw_status rms_norm_backward(Call& call) { return norm_backward<RmsNorm>(call); }

KW_TORCH(rms_norm, "rms_norm", "(Tensor x, Tensor? weight=None, float eps=1e-6) -> Tensor")
KW_TORCH(rms_norm_residual, "rms_norm.residual",
         "(Tensor x, Tensor residual, Tensor? weight=None, float eps=1e-6) -> (Tensor, Tensor)")
KW_TORCH(rms_norm_residual_, "rms_norm.residual_",
         "(Tensor x, Tensor(a!) residual, Tensor? weight=None, float eps=1e-6) -> Tensor")
KW_TORCH(rms_norm_backward, "rms_norm.backward",
         "(Tensor grad, Tensor h, Tensor? weight, Tensor? grad_sum, float eps, bool weight_grad) -> (Tensor, Tensor)")

}  // namespace
}  // namespace kw::torch
