/* SPDX-License-Identifier: MIT */
/* What the codes of a ternary weight stand for. */
#ifndef KERNELWRIGHT_DEQUANTIZE_TERNARY_H
#define KERNELWRIGHT_DEQUANTIZE_TERNARY_H

#include <kernelwright/base.h>

/*
 * y           result: n rows of k elements of `dtype`, each -scale, 0 or scale
 * packed      codes as kw_quantize_ternary writes them, on 16 bytes
 * scale       `scales` float32: 1 of them, or n
 * y_stride    elements from one row to the next; within a row elements are adjacent
 * dtype       KW_FLOAT32, KW_FLOAT16, KW_BFLOAT16
 * stream      a CUstream of `device` (NULL: the default stream); not used on KW_CPU
 */
KW_API kw_status kw_dequantize_ternary(int32_t device, void* stream, void* y, int64_t y_stride, const uint8_t* packed,
                                       const float* scale, int64_t scales, int64_t n, int64_t k, int32_t dtype);

#endif
