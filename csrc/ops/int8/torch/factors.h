// SPDX-License-Identifier: MIT
// Scales and biases of products of 8-bit elements, as their operators take them.
#pragma once

#include <string.h>

#include "core/error.h"
#include "core/tensor.h"
#include "torch/operator.h"

namespace kw::torch {

// One float32 for each row of x, in the shape of its leading dimensions.
inline kw_status check_row_scale(const char* op, const kw_tensor& scale, const kw_tensor& x, int64_t rows) {
  const size_t leading = static_cast<size_t>(x.dims - 1) * sizeof *x.sizes;
  if (scale.dims != x.dims - 1 || memcmp(scale.sizes, x.sizes, leading) != 0) return kElsewhere;
  return check_flat(op, "x_scale", scale, x, KW_FLOAT32, rows, true);
}

// One element for each row of the weight.
inline kw_status check_column(const char* op, const char* name, const kw_tensor& tensor, const kw_tensor& x,
                              int64_t columns, int32_t dtype) {
  if (tensor.dims != 1) return kElsewhere;
  return check_flat(op, name, tensor, x, dtype, columns, true);
}

// Each of them that was given.
inline kw_status check_factors(const char* op, const kw_tensor& x, const TensorRows& rows, int64_t columns,
                               const kw_tensor* x_scale, const kw_tensor* weight_scale, const kw_tensor* bias) {
  if (x_scale != nullptr) KW_TRY(check_row_scale(op, *x_scale, x, rows.count));
  if (weight_scale != nullptr) KW_TRY(check_column(op, "weight_scale", *weight_scale, x, columns, KW_FLOAT32));
  if (bias != nullptr && (bias->dtype < KW_FLOAT32 || bias->dtype > KW_BFLOAT16)) return kElsewhere;
  return bias == nullptr ? KW_OK : check_column(op, "bias", *bias, x, columns, bias->dtype);
}

template <typename T>
const T* data_of(const kw_tensor* tensor) {
  return tensor != nullptr ? static_cast<const T*>(tensor->data) : nullptr;
}

}  // namespace kw::torch
