/* SPDX-License-Identifier: MIT */
/* Block-wise quantization to 8 bits: of each value the code of the nearest entry of a map, times its block's scale. */
#ifndef KERNELWRIGHT_QUANTIZE_BLOCKWISE_H
#define KERNELWRIGHT_QUANTIZE_BLOCKWISE_H

#include <kernelwright/base.h>

/*
 * codes      result: `count` bytes, without a gap
 * absmax     result: the largest size in each block, `count` / `blocksize` rounded up. A subnormal one is 0
 * x          `count` elements of `dtype`, without a gap
 * map        256 values, not descending, from -1 or 0 to 1. The code of a value v is that of the entry nearest to
 *            v * (1 / absmax), of two as near the even one; 0 where that is NaN, as in a block of zeros
 * blocksize  a power of two from 32 to 4096; the last block may be short
 * dtype      KW_FLOAT32, KW_FLOAT16, KW_BFLOAT16; computed in float32
 * stream     a CUstream of `device` (NULL: the default stream); not used on KW_CPU
 *
 * Pointers need only their element's alignment. Overlaps are undefined.
 */
KW_API kw_status kw_quantize_blockwise(int32_t device, void* stream, uint8_t* codes, float* absmax, const void* x,
                                       const float* map, int64_t count, int32_t blocksize, int32_t dtype);

#endif
