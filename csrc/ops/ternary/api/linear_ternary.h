/* SPDX-License-Identifier: MIT */
/* A linear layer of BitNet in one call: norm, quantization of rows, product with a ternary weight, residual. */
#ifndef KERNELWRIGHT_LINEAR_TERNARY_H
#define KERNELWRIGHT_LINEAR_TERNARY_H

#include <kernelwright/base.h>

/*
 * y = q * weight^T * (absmax / 127) * scale + bias, rounded; plus residual, rounded again. q and absmax are what
 * kw_quantize_rows_int8 makes of x with the same weight, clamp and eps, and results have the bits of that function,
 * kw_matmul_ternary and an addition.
 *
 * m, n, k       x has m rows of k elements, the ternary weight n rows of k codes, y m rows of n; any may be 0. k to
 *               2^24; with a norm not 0. On a GPU a launch takes 16 rows: of more the two functions are faster
 * y             result; must not overlap anything else
 * weight        k elements of `weight_dtype`, of the norm, with eps alone; NULL for none
 * packed        codes as kw_quantize_ternary writes them, kw_ternary_bytes(n, k) of them, on 16 bytes
 * scale         what 1 stands for in the ternary weight, `scales` float32: 1 of them, or n. NULL: 1
 * bias          n elements, or NULL
 * residual      m rows of n elements, or NULL
 * *_stride      elements from one row to the next; within a row elements are adjacent
 * dtype         of x, y, bias and residual: KW_FLOAT32, KW_FLOAT16, KW_BFLOAT16
 * weight_dtype  `dtype` or KW_FLOAT32
 * clamp         the least absmax, 0 or more (ternary models: 1e-5)
 * eps           0 or more for the RMS norm; below 0 for none
 * stream        a CUstream of `device` (NULL: the default stream); not used on KW_CPU
 *
 * KW_ERROR_UNSUPPORTED on GPUs without products of 16 x 32 bytes (before compute capability 8.0).
 */
KW_API kw_status kw_linear_ternary(int32_t device, void* stream, void* y, int64_t y_stride, const void* x,
                                   int64_t x_stride, const void* weight, const uint8_t* packed, const float* scale,
                                   int64_t scales, const void* bias, const void* residual, int64_t residual_stride,
                                   int64_t m, int64_t n, int64_t k, int32_t dtype, int32_t weight_dtype, double clamp,
                                   double eps);

#endif
