/* SPDX-License-Identifier: MIT */
/* Rows into 8-bit floats (e4m3) with one scale a row, for kw_matmul_fp8. */
#ifndef KERNELWRIGHT_QUANTIZE_ROWS_FP8_H
#define KERNELWRIGHT_QUANTIZE_ROWS_FP8_H

#include <kernelwright/base.h>

/*
 * Of each row x, in float32, each step rounded to nearest even:
 *
 *   scale = largest |x| / 448      code = x / scale as e4m3, of which 448 is the largest number
 *
 * so that x is about code * scale: what torch gives for (x / scale).to(torch.float8_e4m3fn), on every device. Where the
 * scale would be less than 2^-126, it is 1: a row of zeros has codes 0. A row with a NaN has a NaN for its scale and in
 * every code; one with an infinity has that for its scale, codes 0 and, for the infinity, NaN. NaN codes are 0x7f.
 *
 * codes      result: `rows` rows of `cols` bytes
 * scale      result: `rows` float32
 * x          `rows` rows of `cols` elements of `dtype`
 * *_stride   elements from one row to the next; within a row elements are adjacent
 * dtype      KW_FLOAT32, KW_FLOAT16, KW_BFLOAT16
 * stream     a CUstream of `device` (NULL: the default stream); not used on KW_CPU
 *
 * Pointers need only their element's alignment. Overlaps are undefined.
 */
KW_API kw_status kw_quantize_rows_fp8(int32_t device, void* stream, void* codes, int64_t codes_stride, float* scale,
                                      const void* x, int64_t x_stride, int64_t rows, int64_t cols, int32_t dtype);

#endif
