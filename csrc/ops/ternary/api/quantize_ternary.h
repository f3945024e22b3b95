/* SPDX-License-Identifier: MIT */
/* A weight to codes of -1, 0 and 1, and one scale or one a row. */
#ifndef KERNELWRIGHT_QUANTIZE_TERNARY_H
#define KERNELWRIGHT_QUANTIZE_TERNARY_H

#include <kernelwright/base.h>

/*
 * packed      result: the codes, kw_ternary_bytes(n, k) of them, on 16 bytes. Two bits each, -1, 0 and 1 as 0, 1 and
 *             2: csrc/ops/ternary/geometry.h says where which one is
 * scale       result: the mean size of all weights, or where `scales` is n of each row, at least 1e-5. The code of a
 *             weight w is that of w * (1 / scale), rounded half to even, from -1 to 1
 * weight      n rows of k elements of `dtype`
 * scales      1, or n
 * *_stride    elements from one row to the next; within a row elements are adjacent
 * dtype       KW_FLOAT32, KW_FLOAT16, KW_BFLOAT16; computed in float32
 * stream      a CUstream of `device` (NULL: the default stream); not used on KW_CPU
 *
 * Weights need only their element's alignment. Overlaps are undefined.
 */
KW_API kw_status kw_quantize_ternary(int32_t device, void* stream, uint8_t* packed, float* scale, int64_t scales,
                                     const void* weight, int64_t weight_stride, int64_t n, int64_t k, int32_t dtype);

#endif
