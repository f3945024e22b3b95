/* SPDX-License-Identifier: MIT */
/* Linear layers side by side whose weights are held in 4 bits: each row of x goes through one of them (experts). */
#ifndef KERNELWRIGHT_MATMUL_4BIT_GROUPED_H
#define KERNELWRIGHT_MATMUL_4BIT_GROUPED_H

#include "quantize_4bit.h"

/*
 * The rows of x stand sorted by expert: those from ends[e - 1] (0 for the first) up to ends[e] are multiplied by expert
 * e's weight, y = x * weight[e]^T. Rows from the last end on become 0. An end that is below the one before it, or
 * outside of 0 to m, counts as the nearest that is not. On a GPU `ends` is read by the kernel alone: nothing waits, and
 * a captured graph takes new ones.
 *
 * y            result: m rows of n elements
 * x            m rows of k elements
 * *_stride     elements from one row to the next; within a row elements are adjacent
 * packed       the weights, [experts, n, k] without a gap, as kw_quantize_4bit packs them in one call
 * absmax, codes, absmax2, map, offset    the scales of its blocks, as in kw_dequantize_4bit
 * ends         `experts` numbers, in the device's memory
 * m, experts, n, k    any of them may be 0
 * blocksize    32, 64, 128, 256, 512, 1024, 2048 or 4096. Experts must not share a block: of more than one, n * k must
 *              be a multiple of it, and with quantized scales of 256 times it
 * quant_type   KW_NF4 or KW_FP4
 * dtype        of x and y: KW_FLOAT32, KW_FLOAT16, KW_BFLOAT16; products are summed as in kw_matmul_4bit
 * workspace    for KW_CPU alone: workspace_bytes, at least as many as kw_matmul_4bit_workspace says of m, n and k, on
 *              16 bytes; NULL on a GPU
 * stream       a CUstream of `device` (NULL: the default stream); not used on KW_CPU
 *
 * Other pointers need only their element's alignment. y must not overlap anything else.
 */
KW_API kw_status kw_matmul_4bit_grouped(int32_t device, void* stream, void* y, int64_t y_stride, const void* x,
                                        int64_t x_stride, const uint8_t* packed, const float* absmax,
                                        const uint8_t* codes, const float* absmax2, const float* map,
                                        const float* offset, const int32_t* ends, void* workspace,
                                        int64_t workspace_bytes, int64_t m, int64_t experts, int64_t n, int64_t k,
                                        int32_t blocksize, int32_t quant_type, int32_t dtype);

/*
 * The same of tensors, on the device they are on: k is the last dimension of x and n that of y, the others are m, and
 * `experts` is how many elements `ends` (KW_INT32) has. Rows must follow each other by one stride; the other tensors
 * are as in kw_matmul_4bit_tensors.
 */
KW_API kw_status kw_matmul_4bit_grouped_tensors(void* stream, const kw_tensor* y, const kw_tensor* x,
                                                const kw_tensor* packed, const kw_tensor* absmax,
                                                const kw_tensor* codes, const kw_tensor* absmax2, const kw_tensor* map,
                                                const kw_tensor* offset, const kw_tensor* ends, void* workspace,
                                                int64_t workspace_bytes, int32_t blocksize, int32_t quant_type);

#endif
