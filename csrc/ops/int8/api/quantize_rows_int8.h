/* SPDX-License-Identifier: MIT */
/* Rows into 8-bit integers with one scale a row, for products of integers: LLM.int8 and ternary weights. */
#ifndef KERNELWRIGHT_QUANTIZE_ROWS_INT8_H
#define KERNELWRIGHT_QUANTIZE_ROWS_INT8_H

#include <kernelwright/base.h>

/*
 * Of each row h, which is x, or with `eps` >= 0 its RMS norm x / sqrt(mean(x^2) + eps) * weight, not rounded between:
 *
 *   absmax = max(largest |h|, clamp)      code = round(h * (127 * (1 / absmax))), half to even, from -127 to 127
 *
 * so that h is code * absmax / 127. A row whose absmax is subnormal, infinite or NaN has codes 0: a row of zeros with
 * no clamp, and rows with an infinity or a NaN, of which absmax tells. Each step is rounded to float32; a GPU's
 * reciprocal is right to a unit in the last place.
 *
 * codes         result: `rows` rows of `cols` bytes
 * absmax        result: `rows` float32
 * sums          result: the sum of each row's codes, `rows` elements; NULL if not wanted
 * outliers      result of `cols` bytes, and the way of LLM.int8: elements of size `threshold` or more do not count for
 *               absmax, their byte here is 1 (that of columns without is 0), and codes of such columns are 0 in all
 *               rows. NULL without a threshold. Not with sums or eps
 * x             `rows` rows of `cols` elements of `dtype`
 * weight        `cols` elements of `weight_dtype`, with eps alone; NULL for none
 * *_stride      elements from one row to the next; within a row elements are adjacent
 * dtype         KW_FLOAT32, KW_FLOAT16, KW_BFLOAT16; computed in float32
 * weight_dtype  `dtype` or KW_FLOAT32
 * stream        a CUstream of `device` (NULL: the default stream); not used on KW_CPU
 * clamp         the least absmax, 0 or more (ternary models: 1e-5; LLM.int8: 0)
 * threshold     above 0 where outliers are wanted, else 0
 * eps           0 or more for the RMS norm; below 0 for none
 *
 * Pointers need only their element's alignment. Overlaps are undefined.
 */
KW_API kw_status kw_quantize_rows_int8(int32_t device, void* stream, int8_t* codes, int64_t codes_stride, float* absmax,
                                       int32_t* sums, uint8_t* outliers, const void* x, int64_t x_stride,
                                       const void* weight, int64_t rows, int64_t cols, int32_t dtype,
                                       int32_t weight_dtype, double clamp, double threshold, double eps);

#endif
