// SPDX-License-Identifier: MIT
// What the entry points of both norms refuse, forward and backward. A message names the C function and the argument.
#pragma once

#include "core/error.h"
#include "ops/norm/host/norm.h"

namespace kw::norm_checks {

constexpr int64_t kMaxElements = int64_t{1} << 57;  // more than there are addresses; far from an overflow
constexpr unsigned kWorkspaceAlignment = 16;

inline kw_status check_device(const char* name, int32_t device) {
  if (device < KW_CPU)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: device is %d; it must be KW_CPU (-1) or the number of a GPU", name,
                device);
  return KW_OK;
}

inline kw_status check_sizes(const char* name, int64_t rows, int64_t cols) {
  if (rows < 0)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: rows is %lld; it must not be negative", name, (long long)rows);
  if (cols < 1 || cols > kMaxCols)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: cols is %lld; it must be 1 to %lld", name, (long long)cols,
                (long long)kMaxCols);
  if (rows > kMaxElements / cols)
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "%s: rows is %lld; no memory holds so many rows of %lld elements. Look at how it was computed", name,
                (long long)rows, (long long)cols);
  return KW_OK;
}

// `weighted`: something of weight_dtype is there.
inline kw_status check_types(const char* name, int32_t dtype, bool weighted, int32_t weight_dtype, double eps) {
  if (dtype != KW_FLOAT32 && dtype != KW_FLOAT16 && dtype != KW_BFLOAT16)
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "%s: dtype is %d; it must be KW_FLOAT32 (0), KW_FLOAT16 (1) or KW_BFLOAT16 (2)", name, dtype);
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

// Rows that are written must lie apart.
inline kw_status check_apart(const char* name, const char* argument, const void* data, int64_t stride, int64_t rows,
                             int64_t cols) {
  if (data != nullptr && rows > 1 && stride < cols && stride > -cols)
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "%s: %s_stride is %lld; rows of %lld elements that are written must not overlap", name, argument,
                (long long)stride, (long long)cols);
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
  KW_TRY(check_apart(name, "y", a.y, a.y_stride, a.rows, a.cols));
  return check_apart(name, "sum", a.sum, a.sum_stride, a.rows, a.cols);
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
  return check_apart(name, "dx", a.dx, a.dx_stride, a.rows, a.cols);
}

}  // namespace kw::norm_checks
