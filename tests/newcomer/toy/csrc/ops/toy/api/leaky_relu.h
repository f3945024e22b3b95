/* SPDX-License-Identifier: MIT */
/* The activation that lets a part of what is negative through. */
#ifndef KERNELWRIGHT_LEAKY_RELU_H
#define KERNELWRIGHT_LEAKY_RELU_H

#include <kernelwright/base.h>

/*
 * y = x where x >= 0, else slope * x
 *
 * rows, cols   each tensor has `rows` rows of `cols` elements; either may be 0
 * y, x         result and input, of `dtype`; y may be `x` itself, any other overlap is undefined
 * *_stride     elements from one row to the next; within a row elements are adjacent
 * dtype        KW_FLOAT32, KW_FLOAT16, KW_BFLOAT16; computed in float32
 * stream       a CUstream of `device` (NULL: the default stream); not used on KW_CPU
 *
 * Pointers need only their element's alignment.
 */
KW_API kw_status kw_leaky_relu(int32_t device, void* stream, void* y, int64_t y_stride, const void* x, int64_t x_stride,
                               int64_t rows, int64_t cols, int32_t dtype, double slope);

#endif
