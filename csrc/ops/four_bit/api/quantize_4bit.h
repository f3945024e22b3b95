/* SPDX-License-Identifier: MIT */
/* Block-wise 4-bit quantization, packed as bitsandbytes packs it; and that of the scales it makes. */
#ifndef KERNELWRIGHT_QUANTIZE_4BIT_H
#define KERNELWRIGHT_QUANTIZE_4BIT_H

#include <kernelwright/base.h>

/* The 16 values that a code may stand for. */
enum {
  KW_NF4 = 0, /* the quantiles of a normal distribution */
  KW_FP4 = 1  /* a sign, two bits of exponent, one of mantissa */
};

/*
 * A tensor is cut into blocks of `blocksize` elements, across its rows; the last block may be short. A block has one
 * scale, its largest absolute value, and each element the code of the value nearest to element / scale.
 *
 * packed       result: (count + 1) / 2 bytes. The first of two elements is in the upper four bits; where count is odd
 *              the lower four of the last byte are the code of 0
 * absmax       result: the scales, one for each of the (count + blocksize - 1) / blocksize blocks. NaN where the block
 *              has a NaN; the codes of a block whose scale is 0, infinite or NaN say nothing
 * x            `count` elements of `dtype`
 * blocksize    32, 64, 128, 256, 512, 1024, 2048 or 4096
 * quant_type   KW_NF4 or KW_FP4
 * dtype        KW_FLOAT32, KW_FLOAT16, KW_BFLOAT16; computed in float32
 * stream       a CUstream of `device` (NULL: the default stream); not used on KW_CPU
 *
 * Pointers need only their element's alignment.
 */
KW_API kw_status kw_quantize_4bit(int32_t device, void* stream, uint8_t* packed, float* absmax, const void* x,
                                  int64_t count, int32_t blocksize, int32_t quant_type, int32_t dtype);

/*
 * Quantizes the scales once more, in blocks of 256: of absmax - offset.
 *
 * codes        result: one for each scale, the place in `map` of the value nearest to (absmax - offset) / absmax2
 * absmax2      result: the largest absolute value of each of the (count + 255) / 256 blocks
 * absmax       `count` scales, as kw_quantize_4bit gives them
 * offset       one float on the device, such as the mean of all scales
 * map          256 floats on the device, ascending, from -1 to 1
 */
KW_API kw_status kw_quantize_4bit_absmax(int32_t device, void* stream, uint8_t* codes, float* absmax2,
                                         const float* absmax, const float* offset, const float* map, int64_t count);

#endif
