// SPDX-License-Identifier: MIT
// What a norm's C functions do: from tensors to the struct of checked arguments, then on the CPU, or planned and
// launched.
#pragma once

#include "core/checks.h"
#include "core/tensor.h"
#include "ops/norm/host/launch.h"
#include "ops/norm/host/norm.h"

// What norms refuse, forward and backward, beside what core/checks.h has for all. A message names the C function and
// the argument.
namespace kw::norm_checks {

constexpr unsigned kWorkspaceAlignment = 16;

inline kw_status check_sizes(const char* name, int64_t rows, int64_t cols) {
  if (rows >= 0 && (cols < 1 || cols > kMaxCols))
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: cols is %lld; it must be 1 to %lld", name, (long long)cols,
                (long long)kMaxCols);
  return check_rows(name, rows, cols);
}

// `weighted`: something of weight_dtype is there.
inline kw_status check_types(const char* name, int32_t dtype, bool weighted, int32_t weight_dtype, double eps) {
  KW_TRY(check_float_type(name, dtype));
  if (weighted && weight_dtype != dtype && weight_dtype != KW_FLOAT32)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: weight_dtype is %d; it must be dtype (%d) or KW_FLOAT32 (0)", name,
                weight_dtype, dtype);
  if (!(eps >= 0.0 && eps <= 3e38))
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: eps is %g; it must be a finite float32 that is not negative", name,
                eps);
  return KW_OK;
}

// `optional` names the arguments that may be NULL.
inline kw_status check_there(const char* name, const char* argument, const void* data, const char* optional) {
  if (data == nullptr)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s is NULL; only %s may be", name, argument, optional);
  return KW_OK;
}

inline kw_status check_address(const char* name, const char* argument, const void* data, unsigned size) {
  if (reinterpret_cast<uintptr_t>(data) % size != 0)
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "%s: %s is at %p; its elements of %u bytes need an address that is a multiple of %u", name, argument,
                data, size, size);
  return KW_OK;
}

inline kw_status check(const char* name, const Norm& a, double eps) {
  const char* const optional =
      a.centered ? "residual, sum, weight, bias, mean and rstd" : "residual, sum, weight and rstd";
  const unsigned size = size_of(a.dtype), weight_size = size_of(a.weight_dtype);
  KW_TRY(check_types(name, a.dtype, a.weight != nullptr || a.bias != nullptr, a.weight_dtype, eps));
  KW_TRY(check_sizes(name, a.rows, a.cols));
  if (a.rows == 0) return KW_OK;
  KW_TRY(check_there(name, "x", a.x, optional));
  KW_TRY(check_there(name, "y", a.y, optional));
  if ((a.residual == nullptr) != (a.sum == nullptr))
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s is given without %s; both or neither (sum may be residual itself)",
                name, a.sum == nullptr ? "residual" : "sum", a.sum == nullptr ? "sum" : "residual");
  KW_TRY(check_address(name, "x", a.x, size));
  KW_TRY(check_address(name, "residual", a.residual, size));
  KW_TRY(check_address(name, "y", a.y, size));
  KW_TRY(check_address(name, "sum", a.sum, size));
  KW_TRY(check_address(name, "weight", a.weight, weight_size));
  KW_TRY(check_address(name, "bias", a.bias, weight_size));
  KW_TRY(check_address(name, "mean", a.mean, sizeof(float)));
  KW_TRY(check_address(name, "rstd", a.rstd, sizeof(float)));
  KW_TRY(check_apart(name, "y", a.y_stride, a.rows, a.cols));
  return a.sum == nullptr ? KW_OK : check_apart(name, "sum", a.sum_stride, a.rows, a.cols);
}

// `needed`: what the workspace function says for these sizes.
inline kw_status check_workspace(const char* name, const void* workspace, int64_t bytes, int64_t needed) {
  if (needed == 0) return KW_OK;
  if (workspace == nullptr)
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "%s: workspace is NULL; derivatives of the weights need %lld bytes (%s_workspace says how many)", name,
                (long long)needed, name);
  if (bytes < needed)
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "%s: workspace_bytes is %lld; these sizes need %lld (%s_workspace says how many)", name,
                (long long)bytes, (long long)needed, name);
  if (reinterpret_cast<uintptr_t>(workspace) % kWorkspaceAlignment != 0)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: workspace is at %p; it must be aligned to %u bytes", name, workspace,
                kWorkspaceAlignment);
  return KW_OK;
}

inline bool wants_weight_grads(const NormBackward& a) { return a.dweight != nullptr || a.dbias != nullptr; }

// All but the workspace, whose size depends on where the call runs.
inline kw_status check(const char* name, const NormBackward& a, double eps) {
  const char* const optional = a.centered ? "dweight, dbias, dsum, weight, mean, rstd and workspace"
                                          : "dweight, dsum, weight, rstd and workspace";
  const unsigned size = size_of(a.dtype), weight_size = size_of(a.weight_dtype);
  KW_TRY(check_types(name, a.dtype, a.weight != nullptr || wants_weight_grads(a), a.weight_dtype, eps));
  KW_TRY(check_sizes(name, a.rows, a.cols));
  KW_TRY(check_address(name, "dweight", a.dweight, weight_size));
  KW_TRY(check_address(name, "dbias", a.dbias, weight_size));
  if (a.rows == 0) return KW_OK;
  KW_TRY(check_there(name, "dx", a.dx, optional));
  KW_TRY(check_there(name, "dy", a.dy, optional));
  KW_TRY(check_there(name, "h", a.h, optional));
  if (a.centered && (a.mean == nullptr) != (a.rstd == nullptr))
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s is given without %s; both or neither (without, they are computed)",
                name, a.mean == nullptr ? "rstd" : "mean", a.mean == nullptr ? "mean" : "rstd");
  KW_TRY(check_address(name, "dx", a.dx, size));
  KW_TRY(check_address(name, "dy", a.dy, size));
  KW_TRY(check_address(name, "dsum", a.dsum, size));
  KW_TRY(check_address(name, "h", a.h, size));
  KW_TRY(check_address(name, "weight", a.weight, weight_size));
  KW_TRY(check_address(name, "mean", a.mean, sizeof(float)));
  KW_TRY(check_address(name, "rstd", a.rstd, sizeof(float)));
  return check_apart(name, "dx", a.dx_stride, a.rows, a.cols);
}

}  // namespace kw::norm_checks

namespace kw {

// One norm: static storage, constant-initialised by KW_NORM_OP.
struct NormOp {
  Module module;
  Kernel kernels[3][norm_plan::kShapes];
  NormBackwardKernels backward_kernels;
  bool centered;
  kw_status (*on_cpu)(const Norm&);
  kw_status (*backward_on_cpu)(const NormBackward&);
};

// `op` is the stem of csrc/ops/<family>/<op>.cu, and the name of its functions in kw::cpu.
#define KW_NORM_OP(op, centered) \
  {{#op}, KW_NORM_KERNELS(#op), KW_NORM_BACKWARD_KERNELS(#op), centered, cpu::op, cpu::op##_backward}

// `name` is the C function's, for messages.
inline kw_status run_norm(const char* name, NormOp& op, int32_t device, void* stream, Norm& a, double eps) {
  KW_TRY(check_device(name, device));
  a.eps = static_cast<float>(eps);
  a.centered = op.centered;
  KW_TRY(norm_checks::check(name, a, eps));
  if (a.rows == 0) return KW_OK;
  return device == KW_CPU ? op.on_cpu(a) : launch_norm(name, op.module, op.kernels, device, stream, a);
}

inline kw_status workspace_of(NormOp& op, int32_t device, int64_t rows, int64_t cols, int64_t* bytes) {
  *bytes = 0;
  if (rows == 0) return KW_OK;  // there is no plan for no rows; sums over them are written as they are
  if (device != KW_CPU) return norm_backward_workspace(op.module, device, rows, cols, op.centered, bytes);
  *bytes = cpu::norm_backward_workspace(rows, cols, op.centered);
  return KW_OK;
}

inline kw_status run_norm_backward_workspace(const char* name, NormOp& op, int32_t device, int64_t rows, int64_t cols,
                                             int64_t* bytes) {
  KW_TRY(check_device(name, device));
  KW_TRY(norm_checks::check_sizes(name, rows, cols));
  if (bytes == nullptr) return fail(KW_ERROR_INVALID_ARGUMENT, "%s: bytes is NULL", name);
  return workspace_of(op, device, rows, cols, bytes);
}

inline kw_status run_norm_backward(const char* name, NormOp& op, int32_t device, void* stream, NormBackward& a,
                                   int64_t workspace_bytes, double eps) {
  KW_TRY(check_device(name, device));
  a.eps = static_cast<float>(eps);
  a.centered = op.centered;
  KW_TRY(norm_checks::check(name, a, eps));
  if (norm_checks::wants_weight_grads(a)) {
    int64_t needed = 0;
    KW_TRY(workspace_of(op, device, a.rows, a.cols, &needed));
    KW_TRY(norm_checks::check_workspace(name, a.workspace, workspace_bytes, needed));
  } else if (a.rows == 0) {
    return KW_OK;
  }
  if (device == KW_CPU) return op.backward_on_cpu(a);
  return launch_norm_backward(name, op.module, op.backward_kernels, device, stream, a);
}

struct NormTensors {
  const kw_tensor *y, *sum, *x, *residual, *weight, *bias;
};

struct NormBackwardTensors {
  const kw_tensor *dx, *dweight, *dbias, *dy, *dsum, *h, *weight, *bias;
};

namespace norm_tensors {

// What the tensors of a call must go with: x, or h in a backward pass.
struct Base {
  const char* function;
  kw_tensor x;
  TensorRows rows;
};

inline kw_status read_base(const char* function, const char* name, const kw_tensor* x, Base* base) {
  base->function = function;
  KW_TRY(read_tensor(function, name, x, &base->x));
  return rows_of(function, name, base->x, &base->rows);
}

// A tensor like x, or none.
template <typename Data>
kw_status read_like(const Base& base, const char* name, const kw_tensor* from, Data* data, int64_t* stride) {
  if (from == nullptr) return KW_OK;
  kw_tensor found;
  TensorRows rows;
  KW_TRY(read_tensor(base.function, name, from, &found));
  KW_TRY(rows_beside(base.function, name, found, base.x, base.rows.cols, &rows));
  *data = found.data;
  *stride = rows.stride;
  return KW_OK;
}

inline bool is_written(void**) { return true; }
inline bool is_written(const void**) { return false; }

// A parameter or its derivative, or none; all have one type, `*dtype` once it is known.
template <typename Data>
kw_status read_columns(const Base& base, const char* name, const kw_tensor* from, Data* data, int32_t* dtype) {
  if (from == nullptr) return KW_OK;
  kw_tensor found;
  KW_TRY(read_tensor(base.function, name, from, &found));
  KW_TRY(check_columns(base.function, name, found, base.x, base.rows, is_written(data)));
  if ((found.dtype != base.x.dtype && found.dtype != KW_FLOAT32) || (*dtype != kOtherType && *dtype != found.dtype))
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "%s: the dtype of %s must match that of the rows or be float32, and be that of the other parameters "
                "(found %d)",
                base.function, name, found.dtype);
  *dtype = found.dtype;
  *data = found.data;
  return KW_OK;
}

// Whether what is written at `sum` may be read later at one of these: rows like x, or `wide` bytes of a parameter.
inline bool overlaps(const Norm& a) {
  const auto address = [](const void* data) { return reinterpret_cast<intptr_t>(data); };
  const int64_t size = size_of(a.dtype), wide = a.cols * size_of(a.weight_dtype), first = address(a.sum);
  const int64_t end = first + ((a.rows - 1) * a.sum_stride + a.cols) * size;
  const auto in = [&](const void* data, int64_t bytes) {
    return data != nullptr && address(data) < end && first < address(data) + bytes;
  };
  return in(a.x, ((a.rows - 1) * a.x_stride + a.cols) * size) || in(a.weight, wide) || in(a.bias, wide);
}

}  // namespace norm_tensors

inline kw_status run_norm_tensors(const char* name, NormOp& op, void* stream, const NormTensors& t, double eps) {
  using namespace norm_tensors;
  Base base;
  Norm a{};
  int32_t weight_dtype = kOtherType;
  KW_TRY(read_base(name, "x", t.x, &base));
  a.x = base.x.data, a.x_stride = base.rows.stride;
  a.rows = base.rows.count, a.cols = base.rows.cols;
  KW_TRY(read_like(base, "residual", t.residual, &a.residual, &a.residual_stride));
  KW_TRY(read_like(base, "sum", t.sum, &a.sum, &a.sum_stride));
  KW_TRY(read_like(base, "y", t.y, &a.y, &a.y_stride));
  KW_TRY(read_columns(base, "weight", t.weight, &a.weight, &weight_dtype));
  KW_TRY(read_columns(base, "bias", t.bias, &a.bias, &weight_dtype));
  a.dtype = base.x.dtype;
  a.weight_dtype = weight_dtype == kOtherType ? a.dtype : weight_dtype;
  KW_TRY(norm_checks::check_types(name, a.dtype, true, a.weight_dtype, eps));
  KW_TRY(norm_checks::check_sizes(name, a.rows, a.cols));
  if (a.sum != nullptr && a.rows > 0 && overlaps(a))
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: sum overlaps x or a parameter, which may be read after", name);
  return run_norm(name, op, base.x.device, stream, a, eps);
}

inline kw_status run_norm_backward_tensors(const char* name, NormOp& op, void* stream, const NormBackwardTensors& t,
                                           void* workspace, int64_t workspace_bytes, double eps) {
  using namespace norm_tensors;
  Base base;
  NormBackward a{};
  int32_t weight_dtype = kOtherType;
  const void* bias = nullptr;
  KW_TRY(read_base(name, "h", t.h, &base));
  a.h = base.x.data, a.h_stride = base.rows.stride;
  a.rows = base.rows.count, a.cols = base.rows.cols;
  KW_TRY(read_like(base, "dy", t.dy, &a.dy, &a.dy_stride));
  KW_TRY(read_like(base, "dsum", t.dsum, &a.dsum, &a.dsum_stride));
  KW_TRY(read_like(base, "dx", t.dx, &a.dx, &a.dx_stride));
  KW_TRY(read_columns(base, "weight", t.weight, &a.weight, &weight_dtype));
  KW_TRY(read_columns(base, "bias", t.bias, &bias, &weight_dtype));
  KW_TRY(read_columns(base, "dweight", t.dweight, &a.dweight, &weight_dtype));
  KW_TRY(read_columns(base, "dbias", t.dbias, &a.dbias, &weight_dtype));
  a.dtype = base.x.dtype;
  a.weight_dtype = weight_dtype == kOtherType ? a.dtype : weight_dtype;
  a.workspace = workspace;
  return run_norm_backward(name, op, base.x.device, stream, a, workspace_bytes, eps);
}

}  // namespace kw
