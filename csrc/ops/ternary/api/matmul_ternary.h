/* SPDX-License-Identifier: MIT */
/* A product of rows of 8-bit integers with a ternary weight: the linear layer of BitNet. */
#ifndef KERNELWRIGHT_MATMUL_TERNARY_H
#define KERNELWRIGHT_MATMUL_TERNARY_H

#include <kernelwright/base.h>

/*
 * y = (x * weight^T) * (absmax / 127) * scale + bias: sums are exact, in 32 bits; then float32, rounded once.
 *
 * m, n, k      x has m rows of k bytes, the weight n rows of k codes, y m rows of n elements; any may be 0. k to 2^24
 * y            result, of `dtype`; must not overlap anything else
 * x            rows of signed bytes: the codes of kw_quantize_rows_int8, or any others
 * packed       codes as kw_quantize_ternary writes them, kw_ternary_bytes(n, k) of them, on 16 bytes
 * absmax       what 127 stands for in each row of x, m float32; NULL: 127
 * scale        what 1 stands for in the weight, `scales` float32: 1 of them, or n. NULL: 1
 * bias         n elements of `dtype`, or NULL
 * *_stride     elements from one row to the next; within a row elements are adjacent
 * dtype        of y: KW_FLOAT32, KW_FLOAT16, KW_BFLOAT16; or KW_INT32 for the sums themselves, without scales and bias
 * stream       a CUstream of `device` (NULL: the default stream); not used on KW_CPU
 *
 * KW_ERROR_UNSUPPORTED on GPUs without products of 16 x 32 bytes (before compute capability 8.0).
 */
KW_API kw_status kw_matmul_ternary(int32_t device, void* stream, void* y, int64_t y_stride, const int8_t* x,
                                   int64_t x_stride, const uint8_t* packed, const float* absmax, const float* scale,
                                   int64_t scales, const void* bias, int64_t m, int64_t n, int64_t k, int32_t dtype);

/* The bytes that the codes of a weight take: blocks of 16 rows of 128 of k in 512 bytes. */
KW_API kw_status kw_ternary_bytes(int64_t n, int64_t k, int64_t* bytes);

#endif
