/* SPDX-License-Identifier: MIT */
/* Layer normalisation of rows: y = (h - mean(h)) / sqrt(var(h) + eps) * weight + bias, where h = x, or x + residual. */
#ifndef KERNELWRIGHT_LAYER_NORM_H
#define KERNELWRIGHT_LAYER_NORM_H

#include <kernelwright/base.h>

/*
 * rows, cols         h has `rows` rows of `cols` elements, 1 <= cols <= 65536; rows may be 0
 * y                  result, of `dtype`
 * x                  input, of `dtype`
 * residual           added to x first; NULL if there is none
 * sum                where h is stored, rounded to `dtype`; required with residual, else NULL. May be `residual` itself
 *                    (in place) or, like y, be `x` itself; any other overlap is undefined
 * weight, bias       `cols` elements of `weight_dtype` each; NULL for none
 * mean, rstd         mean(h) and 1 / sqrt(var(h) + eps) of each row, for a backward pass; NULL if not wanted
 * *_stride           elements from one row to the next; within a row elements are adjacent
 * dtype              KW_FLOAT32, KW_FLOAT16, KW_BFLOAT16; sums are kept in float32
 * weight_dtype       of weight and bias: `dtype` or KW_FLOAT32
 * stream             a CUstream of `device` (NULL: the default stream); not used on KW_CPU
 *
 * The variance is mean((h - mean(h))^2), of the unrounded float32 h, and right also where the mean is much larger than
 * the deviations. Pointers need only their element's alignment.
 */
KW_API kw_status kw_layer_norm(int32_t device, void* stream, void* y, int64_t y_stride, void* sum, int64_t sum_stride,
                               const void* x, int64_t x_stride, const void* residual, int64_t residual_stride,
                               const void* weight, const void* bias, float* mean, float* rstd, int64_t rows,
                               int64_t cols, int32_t dtype, int32_t weight_dtype, double eps);

/*
 * The same of tensors, on the device they are on. All but weight and bias have the shape of x; its rows are all but the
 * last dimension. KW_ERROR_INVALID_ARGUMENT also where the rows of one do not follow each other by one stride, as those
 * of x[:, ::2] or of a transposed tensor, or where sum overlaps x, weight or bias; y must overlap nothing.
 */
KW_API kw_status kw_layer_norm_tensors(void* stream, const kw_tensor* y, const kw_tensor* sum, const kw_tensor* x,
                                       const kw_tensor* residual, const kw_tensor* weight, const kw_tensor* bias,
                                       double eps);

/* Bytes of scratch memory that kw_layer_norm_backward wants on this device for these sizes; 0 where it wants none. */
KW_API kw_status kw_layer_norm_backward_workspace(int32_t device, int64_t rows, int64_t cols, int64_t* bytes);

/*
 * The derivatives, from dy, that of y; u = (h - mean) * rstd.
 *
 * dx              dsum + rstd * (g - mean(g) - u * mean(g * u)), where g = dy * weight: of x, and of residual
 * dweight, dbias  sums over the rows of dy * u and of dy, `cols` elements of `weight_dtype`; NULL if not wanted
 * dsum            derivative of `sum`, added to dx; NULL if there is none
 * h               what was normalised: x, or `sum`
 * mean, rstd      as kw_layer_norm gave them, both or neither; NULL: computed again from h
 * workspace       memory of `device` for this call alone, aligned to 16 bytes, of at least the bytes asked for above;
 *                 may be NULL where dweight and dbias are
 *
 * What is written must not overlap what is read. Everything else is as in kw_layer_norm. The same call on the same kind
 * of device gives the same bits.
 */
KW_API kw_status kw_layer_norm_backward(int32_t device, void* stream, void* dx, int64_t dx_stride, void* dweight,
                                        void* dbias, const void* dy, int64_t dy_stride, const void* dsum,
                                        int64_t dsum_stride, const void* h, int64_t h_stride, const void* weight,
                                        const float* mean, const float* rstd, void* workspace, int64_t workspace_bytes,
                                        int64_t rows, int64_t cols, int32_t dtype, int32_t weight_dtype, double eps);

/* The same of tensors, as kw_layer_norm_tensors; mean and rstd are computed again, and bias is only looked at. */
KW_API kw_status kw_layer_norm_backward_tensors(void* stream, const kw_tensor* dx, const kw_tensor* dweight,
                                                const kw_tensor* dbias, const kw_tensor* dy, const kw_tensor* dsum,
                                                const kw_tensor* h, const kw_tensor* weight, const kw_tensor* bias,
                                                void* workspace, int64_t workspace_bytes, double eps);

#endif
