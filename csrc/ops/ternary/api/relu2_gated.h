/* SPDX-License-Identifier: MIT */
/* The gated activation of BitNet's feed-forward part: y = relu(gate)^2 * up. */
#ifndef KERNELWRIGHT_RELU2_GATED_H
#define KERNELWRIGHT_RELU2_GATED_H

#include <kernelwright/base.h>

/*
 * rows, cols   each tensor has `rows` rows of `cols` elements; either may be 0
 * y            result, of `dtype`; may be `gate` or `up` itself, any other overlap is undefined
 * gate, up     inputs, of `dtype`
 * *_stride     elements from one row to the next; within a row elements are adjacent
 * dtype        KW_FLOAT32, KW_FLOAT16, KW_BFLOAT16; computed in float32
 * stream       a CUstream of `device` (NULL: the default stream); not used on KW_CPU
 *
 * Pointers need only their element's alignment.
 */
KW_API kw_status kw_relu2_gated(int32_t device, void* stream, void* y, int64_t y_stride, const void* gate,
                                int64_t gate_stride, const void* up, int64_t up_stride, int64_t rows, int64_t cols,
                                int32_t dtype);

/*
 * The derivatives, from dy, that of y: dgate = dy * up * 2 relu(gate), dup = dy * relu(gate)^2. dgate may be `gate`
 * itself and dup `up` itself; any other overlap is undefined. Everything else is as in kw_relu2_gated.
 */
KW_API kw_status kw_relu2_gated_backward(int32_t device, void* stream, void* dgate, int64_t dgate_stride, void* dup,
                                         int64_t dup_stride, const void* dy, int64_t dy_stride, const void* gate,
                                         int64_t gate_stride, const void* up, int64_t up_stride, int64_t rows,
                                         int64_t cols, int32_t dtype);

#endif
