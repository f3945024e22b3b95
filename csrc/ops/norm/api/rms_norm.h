/* SPDX-License-Identifier: MIT */
/* RMS normalisation of rows: y = h / sqrt(mean(h^2) + eps) * weight, where h = x, or x + residual. */
#ifndef KERNELWRIGHT_RMS_NORM_H
#define KERNELWRIGHT_RMS_NORM_H

#include <kernelwright/base.h>

/*
 * rows, cols         h has `rows` rows of `cols` elements, 1 <= cols <= 65536; rows may be 0
 * y                  result, of `dtype`
 * x                  input, of `dtype`
 * residual           added to x first; NULL if there is none
 * sum                where h is stored, rounded to `dtype`; required with residual, else NULL. May be `residual` itself
 *                    (in place) or, like y, be `x` itself; any other overlap is undefined
 * weight             `cols` elements of `weight_dtype`; NULL for none
 * rstd               1 / sqrt(mean(h^2) + eps) of each row, for a backward pass; NULL if not wanted
 * *_stride           elements from one row to the next; within a row elements are adjacent
 * dtype              KW_FLOAT32, KW_FLOAT16, KW_BFLOAT16; sums are kept in float32
 * weight_dtype       `dtype` or KW_FLOAT32
 * stream             a CUstream of `device` (NULL: the default stream); not used on KW_CPU
 *
 * The norm is that of the unrounded float32 sum h; pointers need only their element's alignment.
 */
KW_API kw_status kw_rms_norm(int32_t device, void* stream, void* y, int64_t y_stride, void* sum, int64_t sum_stride,
                             const void* x, int64_t x_stride, const void* residual, int64_t residual_stride,
                             const void* weight, float* rstd, int64_t rows, int64_t cols, int32_t dtype,
                             int32_t weight_dtype, double eps);

/*
 * The same of tensors, on the device they are on. All but weight have the shape of x; its rows are all but the last
 * dimension. KW_ERROR_INVALID_ARGUMENT also where the rows of one do not follow each other by one stride, as those of
 * x[:, ::2] or of a transposed tensor, or where sum overlaps x or weight; y must overlap nothing.
 */
KW_API kw_status kw_rms_norm_tensors(void* stream, const kw_tensor* y, const kw_tensor* sum, const kw_tensor* x,
                                     const kw_tensor* residual, const kw_tensor* weight, double eps);

/* Bytes of scratch memory that kw_rms_norm_backward wants on this device for these sizes; 0 where it wants none. */
KW_API kw_status kw_rms_norm_backward_workspace(int32_t device, int64_t rows, int64_t cols, int64_t* bytes);

/*
 * The derivatives, from dy, that of y; u = h * rstd.
 *
 * dx          dsum + rstd * (g - u * mean(g * u)), where g = dy * weight: the derivative of x, and of residual
 * dweight     sum over the rows of dy * u, `cols` elements of `weight_dtype`; NULL if not wanted
 * dsum        derivative of `sum`, added to dx; NULL if there is none
 * h           what was normalised: x, or `sum`
 * rstd        as kw_rms_norm gave it; NULL: computed again from h
 * workspace   memory of `device` for this call alone, aligned to 16 bytes, of at least the bytes asked for above;
 *             may be NULL where dweight is
 *
 * What is written must not overlap what is read. Everything else is as in kw_rms_norm. The same call on the same kind
 * of device gives the same bits.
 */
KW_API kw_status kw_rms_norm_backward(int32_t device, void* stream, void* dx, int64_t dx_stride, void* dweight,
                                      const void* dy, int64_t dy_stride, const void* dsum, int64_t dsum_stride,
                                      const void* h, int64_t h_stride, const void* weight, const float* rstd,
                                      void* workspace, int64_t workspace_bytes, int64_t rows, int64_t cols,
                                      int32_t dtype, int32_t weight_dtype, double eps);

/* The same of tensors, as kw_rms_norm_tensors; rstd is computed again. */
KW_API kw_status kw_rms_norm_backward_tensors(void* stream, const kw_tensor* dx, const kw_tensor* dweight,
                                              const kw_tensor* dy, const kw_tensor* dsum, const kw_tensor* h,
                                              const kw_tensor* weight, void* workspace, int64_t workspace_bytes,
                                              double eps);

#endif
