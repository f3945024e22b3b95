// SPDX-License-Identifier: MIT
#include "ops/norm/api/layer_norm.h"

#include "core/error.h"
#include "ops/norm/torch/norm.h"

namespace kw::torch {
namespace {

struct LayerNorm {
  static constexpr int kCount = 2;
  static kw_status forward(void* stream, const kw_tensor* y, const kw_tensor* sum, const kw_tensor* x,
                           const kw_tensor* residual, const kw_tensor* weight, const kw_tensor* bias, double eps) {
    return kw_layer_norm_tensors(stream, y, sum, x, residual, weight, bias, eps);
  }
  static kw_status workspace(int32_t device, int64_t rows, int64_t cols, int64_t* bytes) {
    return kw_layer_norm_backward_workspace(device, rows, cols, bytes);
  }
  static kw_status backward(void* stream, const kw_tensor* dx, const kw_tensor* const* results, const kw_tensor* dy,
                            const kw_tensor* dsum, const kw_tensor* h, const kw_tensor* const* parameters,
                            void* workspace, int64_t bytes, double eps) {
    return kw_layer_norm_backward_tensors(stream, dx, results[0], results[1], dy, dsum, h, parameters[0], parameters[1],
                                          workspace, bytes, eps);
  }
};

kw_status layer_norm(Call& call) { return norm_forward<LayerNorm>(call, false, false); }
kw_status layer_norm_residual(Call& call) { return norm_forward<LayerNorm>(call, true, false); }
kw_status layer_norm_residual_(Call& call) { return norm_forward<LayerNorm>(call, true, true); }
kw_status layer_norm_backward(Call& call) { return norm_backward<LayerNorm>(call); }

KW_TORCH(layer_norm, "layer_norm", "(Tensor x, Tensor? weight=None, Tensor? bias=None, float eps=1e-5) -> Tensor")
KW_TORCH(layer_norm_residual, "layer_norm.residual",
         "(Tensor x, Tensor residual, Tensor? weight=None, Tensor? bias=None, float eps=1e-5) -> (Tensor, Tensor)")
KW_TORCH(layer_norm_residual_, "layer_norm.residual_",
         "(Tensor x, Tensor(a!) residual, Tensor? weight=None, Tensor? bias=None, float eps=1e-5) -> Tensor")
KW_TORCH(layer_norm_backward, "layer_norm.backward",
         "(Tensor grad, Tensor h, Tensor? weight, Tensor? bias, Tensor? grad_sum, float eps, bool weight_grad, "
         "bool bias_grad) -> (Tensor, Tensor, Tensor)")

}  // namespace
}  // namespace kw::torch
