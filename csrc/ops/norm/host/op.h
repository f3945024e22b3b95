// SPDX-License-Identifier: MIT
// What a norm's C functions do once their arguments are in a struct: check them, then run on the CPU or plan a launch.
#pragma once

#include "ops/norm/host/backward_launch.h"
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

}  // namespace kw
