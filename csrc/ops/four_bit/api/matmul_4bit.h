/* SPDX-License-Identifier: MIT */
/* A linear layer whose weight is held in 4 bits: y = x * weight^T + bias. */
#ifndef KERNELWRIGHT_MATMUL_4BIT_H
#define KERNELWRIGHT_MATMUL_4BIT_H

#include "quantize_4bit.h"

/*
 * y            result: m rows of n elements
 * x            m rows of k elements
 * *_stride     elements from one row to the next; within a row elements are adjacent
 * packed       the weight, n rows of k elements that follow each other without a gap, as kw_quantize_4bit packs them:
 *              blocks go on across its rows
 * absmax, codes, absmax2, map, offset    the scales of its blocks, as in kw_dequantize_4bit
 * bias         n elements, or NULL
 * m, n, k      any of them may be 0
 * blocksize    32, 64, 128, 256, 512, 1024, 2048 or 4096
 * quant_type   KW_NF4 or KW_FP4
 * dtype        of x, y and bias: KW_FLOAT32, KW_FLOAT16, KW_BFLOAT16. Products are summed in float32 and then scaled by
 *              their block's scale, which is not rounded; on KW_CPU a value may be scaled, in float32, before. Nor are
 *              the values of codes, except on a GPU to float16 and bfloat16: NF4's by at most 2^-12.5 and 2^-9.3 of
 *              themselves. From 65 rows of x of these types on, a GPU with wgmma multiplies with what
 * kw_dequantize_4bit gives, where k is a multiple of 32 and rows of x begin on 16 bytes workspace    workspace_bytes of
 * the device's memory, at least as many as kw_matmul_4bit_workspace says, on 16 bytes; NULL where that says 0 stream a
 * CUstream of `device` (NULL: the default stream); not used on KW_CPU
 *
 * Other pointers need only their element's alignment. y must not overlap anything else.
 */
KW_API kw_status kw_matmul_4bit(int32_t device, void* stream, void* y, int64_t y_stride, const void* x,
                                int64_t x_stride, const uint8_t* packed, const float* absmax, const uint8_t* codes,
                                const float* absmax2, const float* map, const float* offset, const void* bias,
                                void* workspace, int64_t workspace_bytes, int64_t m, int64_t n, int64_t k,
                                int32_t blocksize, int32_t quant_type, int32_t dtype);

/*
 * The same of tensors, on the device they are on: k is the last dimension of x and n that of y, the others are m. Rows
 * must follow each other by one stride; other tensors have so many elements as above without gaps, in any shape, packed
 * and codes of KW_UINT8, bias of the type of x, scales of KW_FLOAT32.
 *
 * offset may have p elements, up to 63, for a weight that was joined of several: of p parts of equally many rows, each
 * of a multiple of 256 blocks, every one has its own, in their order. There are fewer than 2^31 blocks then.
 */
KW_API kw_status kw_matmul_4bit_tensors(void* stream, const kw_tensor* y, const kw_tensor* x, const kw_tensor* packed,
                                        const kw_tensor* absmax, const kw_tensor* codes, const kw_tensor* absmax2,
                                        const kw_tensor* map, const kw_tensor* offset, const kw_tensor* bias,
                                        void* workspace, int64_t workspace_bytes, int32_t blocksize,
                                        int32_t quant_type);

/* How much scratch memory a kw_matmul_4bit of these sizes needs, the same on each call. */
KW_API kw_status kw_matmul_4bit_workspace(int32_t device, int64_t m, int64_t n, int64_t k, int32_t blocksize,
                                          int32_t dtype, int64_t* bytes);

#endif
