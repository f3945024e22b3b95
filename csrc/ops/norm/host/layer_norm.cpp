// SPDX-License-Identifier: MIT
// The C functions of layer_norm: each says what its arguments are called.
#include "ops/norm/api/layer_norm.h"

#include "ops/norm/host/op.h"
#include "ops/norm/torch/norm.h"

namespace kw {
namespace {

NormOp op = KW_NORM_OP(layer_norm, true);

}  // namespace
}  // namespace kw

KW_API kw_status kw_layer_norm(int32_t device, void* stream, void* y, int64_t y_stride, void* sum, int64_t sum_stride,
                               const void* x, int64_t x_stride, const void* residual, int64_t residual_stride,
                               const void* weight, const void* bias, float* mean, float* rstd, int64_t rows,
                               int64_t cols, int32_t dtype, int32_t weight_dtype, double eps) {
  kw::Norm a{};
  a.y = y, a.y_stride = y_stride;
  a.sum = sum, a.sum_stride = sum_stride;
  a.x = x, a.x_stride = x_stride;
  a.residual = residual, a.residual_stride = residual_stride;
  a.weight = weight, a.bias = bias;
  a.mean = mean, a.rstd = rstd;
  a.rows = rows, a.cols = cols;
  a.dtype = dtype, a.weight_dtype = weight_dtype;
  return kw::run_norm("kw_layer_norm", kw::op, device, stream, a, eps);
}

KW_API kw_status kw_layer_norm_tensors(void* stream, const kw_tensor* y, const kw_tensor* sum, const kw_tensor* x,
                                       const kw_tensor* residual, const kw_tensor* weight, const kw_tensor* bias,
                                       double eps) {
  return kw::run_norm_tensors("kw_layer_norm_tensors", kw::op, stream, {y, sum, x, residual, weight, bias}, eps);
}

KW_API kw_status kw_layer_norm_backward_workspace(int32_t device, int64_t rows, int64_t cols, int64_t* bytes) {
  return kw::run_norm_backward_workspace("kw_layer_norm_backward_workspace", kw::op, device, rows, cols, bytes);
}

KW_API kw_status kw_layer_norm_backward(int32_t device, void* stream, void* dx, int64_t dx_stride, void* dweight,
                                        void* dbias, const void* dy, int64_t dy_stride, const void* dsum,
                                        int64_t dsum_stride, const void* h, int64_t h_stride, const void* weight,
                                        const float* mean, const float* rstd, void* workspace, int64_t workspace_bytes,
                                        int64_t rows, int64_t cols, int32_t dtype, int32_t weight_dtype, double eps) {
  kw::NormBackward a{};
  a.dx = dx, a.dx_stride = dx_stride;
  a.dweight = dweight, a.dbias = dbias;
  a.dy = dy, a.dy_stride = dy_stride;
  a.dsum = dsum, a.dsum_stride = dsum_stride;
  a.h = h, a.h_stride = h_stride;
  a.weight = weight, a.mean = mean, a.rstd = rstd;
  a.workspace = workspace;
  a.rows = rows, a.cols = cols;
  a.dtype = dtype, a.weight_dtype = weight_dtype;
  return kw::run_norm_backward("kw_layer_norm_backward", kw::op, device, stream, a, workspace_bytes, eps);
}

KW_API kw_status kw_layer_norm_backward_tensors(void* stream, const kw_tensor* dx, const kw_tensor* dweight,
                                                const kw_tensor* dbias, const kw_tensor* dy, const kw_tensor* dsum,
                                                const kw_tensor* h, const kw_tensor* weight, const kw_tensor* bias,
                                                void* workspace, int64_t workspace_bytes, double eps) {
  return kw::run_norm_backward_tensors("kw_layer_norm_backward_tensors", kw::op, stream,
                                       {dx, dweight, dbias, dy, dsum, h, weight, bias}, workspace, workspace_bytes,
                                       eps);
}

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
