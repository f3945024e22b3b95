/* SPDX-License-Identifier: MIT */
/* The values of 8-bit codes: an entry of a map times the scale of its block. */
#ifndef KERNELWRIGHT_DEQUANTIZE_BLOCKWISE_H
#define KERNELWRIGHT_DEQUANTIZE_BLOCKWISE_H

#include <kernelwright/base.h>

/*
 * y          result: map[codes[i]] * absmax[i / blocksize], `count` elements of `dtype`, rounded once
 * codes      `count` bytes, without a gap
 * absmax     a scale for each block, `count` / `blocksize` rounded up
 * map        256 values
 * blocksize  a power of two from 32 to 4096
 * dtype      KW_FLOAT32, KW_FLOAT16, KW_BFLOAT16
 * stream     a CUstream of `device` (NULL: the default stream); not used on KW_CPU
 *
 * Pointers need only their element's alignment. Overlaps are undefined.
 */
KW_API kw_status kw_dequantize_blockwise(int32_t device, void* stream, void* y, const uint8_t* codes,
                                         const float* absmax, const float* map, int64_t count, int32_t blocksize,
                                         int32_t dtype);

#endif
