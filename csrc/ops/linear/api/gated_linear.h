/* SPDX-License-Identifier: MIT */
/* The gated half of a feed-forward layer: y = activation(x * gate^T + b) * (x * up^T + c). */
#ifndef KERNELWRIGHT_GATED_LINEAR_H
#define KERNELWRIGHT_GATED_LINEAR_H

#include "linear.h"

/*
 * As kw_linear, but for the weight: 2 * n rows, first those of the gate, then those of what it is multiplied with; and
 * the bias: 2 * n elements in the same order, or NULL. `activation` is that of the gate, one of linear.h (KW_SILU:
 * SwiGLU).
 */
KW_API kw_status kw_gated_linear(int32_t device, void* stream, void* y, int64_t y_stride, const void* x,
                                 int64_t x_stride, const void* weight, int64_t weight_stride, const void* bias,
                                 int64_t m, int64_t n, int64_t k, int32_t activation, int32_t dtype);

/* As kw_linear_tensors: the weight is [2 * n, k], bias [2 * n] or NULL. */
KW_API kw_status kw_gated_linear_tensors(void* stream, const kw_tensor* y, const kw_tensor* x, const kw_tensor* weight,
                                         const kw_tensor* bias, int32_t activation);

/* As kw_linear_fits. */
KW_API kw_status kw_gated_linear_fits(int32_t device, int64_t m, int64_t n, int64_t k, int64_t alignment, int32_t dtype,
                                      int32_t* yes);

#endif
