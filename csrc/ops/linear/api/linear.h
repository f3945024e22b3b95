/* SPDX-License-Identifier: MIT */
/* A linear layer with its activation: y = activation(x * weight^T + bias). */
#ifndef KERNELWRIGHT_LINEAR_H
#define KERNELWRIGHT_LINEAR_H

#include <kernelwright/base.h>

enum {
  KW_NO_ACTIVATION = 0,
  KW_RELU = 1,
  KW_SQUARED_RELU = 2, /* relu(v) * relu(v) */
  KW_SILU = 3,         /* v / (1 + exp(-v)) */
  KW_GELU = 4,         /* v times the normal distribution's integral up to v */
  KW_GELU_TANH = 5     /* the same, approximated by tanh */
};

/*
 * m, n, k      x has m rows of k elements, the weight n rows of k elements, y m rows of n; any may be 0
 * y            result, of `dtype`; must not overlap anything else
 * x, weight    inputs, of `dtype`
 * bias         n elements of `dtype`, or NULL
 * *_stride     elements from one row to the next; within a row elements are adjacent
 * activation   one of the above
 * dtype        KW_FLOAT32, KW_FLOAT16, KW_BFLOAT16; summed, and the activation computed, in float32
 * stream       a CUstream of `device` (NULL: the default stream); not used on KW_CPU
 *
 * Pointers need only their element's alignment. The kernels for tensor cores need more: 16-bit elements on a GPU of
 * compute capability 8.0 or newer, x and weight on 16 bytes with strides that are multiples of 8, and without wgmma k
 * such a multiple too; other calls take a general kernel.
 */
KW_API kw_status kw_linear(int32_t device, void* stream, void* y, int64_t y_stride, const void* x, int64_t x_stride,
                           const void* weight, int64_t weight_stride, const void* bias, int64_t m, int64_t n, int64_t k,
                           int32_t activation, int32_t dtype);

/*
 * The same of tensors of one type, on one device: x of any shape with k in its last dimension, y like it with n, the
 * weight [n, k], bias [n] or NULL. KW_ERROR_INVALID_ARGUMENT also where the rows of one do not follow each other by one
 * stride.
 */
KW_API kw_status kw_linear_tensors(void* stream, const kw_tensor* y, const kw_tensor* x, const kw_tensor* weight,
                                   const kw_tensor* bias, int32_t activation);

/*
 * Whether kw_linear is the fast way for such a call on that device: *yes is 1 where a kernel for tensor cores takes it,
 * with enough rows and tiles and no more of k than pay, or where it is so small that one launch is all it takes. Else
 * it is 0, as for KW_CPU: a BLAS is likely faster. `alignment`: bytes that the addresses and rows of x and weight are
 * multiples of.
 */
KW_API kw_status kw_linear_fits(int32_t device, int64_t m, int64_t n, int64_t k, int64_t alignment, int32_t dtype,
                                int32_t* yes);

#endif
