/* SPDX-License-Identifier: MIT */
/* The product of rows of 8-bit integers, exact, and what makes numbers of it: LLM.int8 and its like. */
#ifndef KERNELWRIGHT_MATMUL_INT8_H
#define KERNELWRIGHT_MATMUL_INT8_H

#include <kernelwright/base.h>

/*
 * Of row i of x and row j of the weight, with the sum in int32 and what follows in float32, rounded at each step:
 *
 *   y[i, j] = sum(x[i, :] * weight[j, :]) * (x_scale[i] * weight_scale[j]) * factor + bias[j]
 *
 * y             result, `m` rows of `n` elements of `dtype`; must not overlap anything else
 * x, weight     `m` and `n` rows of `k` int8
 * x_scale       `m` float32; NULL: 1
 * weight_scale  `n` float32; NULL: 1
 * bias          `n` elements of `bias_dtype`; NULL for none
 * m, n, k       any may be 0; k at most 131071: so many products of the largest size fit into a sum
 * *_stride      elements from one row to the next; within a row elements are adjacent
 * dtype         KW_FLOAT32, KW_FLOAT16, KW_BFLOAT16; or KW_INT32: the sums, with neither scales nor bias, and factor 1
 * bias_dtype    KW_FLOAT32, KW_FLOAT16, KW_BFLOAT16
 * stream        a CUstream of `device` (NULL: the default stream); not used on KW_CPU
 * factor        1 / (127 * 127) where the scales are the largest sizes of rows, as kw_quantize_rows_int8 gives them;
 *               finite in float32
 *
 * Pointers need only their element's alignment. The kernels for tensor cores need x and weight on 16 bytes, with
 * strides that are multiples of 16; other calls take a general kernel.
 */
KW_API kw_status kw_matmul_int8(int32_t device, void* stream, void* y, int64_t y_stride, const int8_t* x,
                                int64_t x_stride, const int8_t* weight, int64_t weight_stride, const float* x_scale,
                                const float* weight_scale, const void* bias, int64_t m, int64_t n, int64_t k,
                                int32_t dtype, int32_t bias_dtype, double factor);

#endif
