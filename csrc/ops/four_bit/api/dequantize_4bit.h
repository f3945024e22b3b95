/* SPDX-License-Identifier: MIT */
/* The way back from 4-bit codes. */
#ifndef KERNELWRIGHT_DEQUANTIZE_4BIT_H
#define KERNELWRIGHT_DEQUANTIZE_4BIT_H

#include "quantize_4bit.h"

/*
 * y            result: `count` elements of `dtype`, each its code's value times its block's scale, in float32, rounded
 * packed       (count + 1) / 2 bytes as kw_quantize_4bit packs them
 * absmax       the scales, one a block; NULL where they are quantized themselves. Then
 *                scale of block b = map[codes[b]] * absmax2[b / 256] + *offset, rounded after each step
 * codes, absmax2, map, offset    as kw_quantize_4bit_absmax makes them, on the device; all NULL where absmax is not
 * blocksize    32, 64, 128, 256, 512, 1024, 2048 or 4096
 * quant_type   KW_NF4 or KW_FP4
 * dtype        KW_FLOAT32, KW_FLOAT16, KW_BFLOAT16
 * stream       a CUstream of `device` (NULL: the default stream); not used on KW_CPU
 *
 * Pointers need only their element's alignment.
 */
KW_API kw_status kw_dequantize_4bit(int32_t device, void* stream, void* y, const uint8_t* packed, const float* absmax,
                                    const uint8_t* codes, const float* absmax2, const float* map, const float* offset,
                                    int64_t count, int32_t blocksize, int32_t quant_type, int32_t dtype);

/*
 * The same of tensors, as kw_matmul_4bit_tensors has them: y says `count`, and its type is `dtype`. offset may be that
 * of several parts.
 */
KW_API kw_status kw_dequantize_4bit_tensors(void* stream, const kw_tensor* y, const kw_tensor* packed,
                                            const kw_tensor* absmax, const kw_tensor* codes, const kw_tensor* absmax2,
                                            const kw_tensor* map, const kw_tensor* offset, int32_t blocksize,
                                            int32_t quant_type);

#endif
