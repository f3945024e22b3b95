// SPDX-License-Identifier: MIT
// What a norm's C functions do: from tensors to the struct of checked arguments, then on the CPU, or planned and
// launched.
#pragma once

#include "core/tensor.h"
#include "ops/norm/host/checks.h"
#include "ops/norm/host/launch.h"

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
  KW_TRY(norm_checks::check_device(name, device));
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
  KW_TRY(norm_checks::check_device(name, device));
  KW_TRY(norm_checks::check_sizes(name, rows, cols));
  if (bytes == nullptr) return fail(KW_ERROR_INVALID_ARGUMENT, "%s: bytes is NULL", name);
  return workspace_of(op, device, rows, cols, bytes);
}

inline kw_status run_norm_backward(const char* name, NormOp& op, int32_t device, void* stream, NormBackward& a,
                                   int64_t workspace_bytes, double eps) {
  KW_TRY(norm_checks::check_device(name, device));
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
