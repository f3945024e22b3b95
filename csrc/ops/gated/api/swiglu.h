/* SPDX-License-Identifier: MIT */
/* The gated activation of rows: y = silu(gate) * up, where silu(v) = v / (1 + exp(-v)). */
#ifndef KERNELWRIGHT_SWIGLU_H
#define KERNELWRIGHT_SWIGLU_H

#include <kernelwright/base.h>

/*
 * rows, cols   each tensor has `rows` rows of `cols` elements; either may be 0
 * y            result, of `dtype`; may be `gate` or `up` itself, any other overlap is undefined
 * gate, up     inputs, of `dtype`. One packed tensor [gate | up] is up = gate + cols, with strides of 2 * cols
 * *_stride     elements from one row to the next; within a row elements are adjacent
 * dtype        KW_FLOAT32, KW_FLOAT16, KW_BFLOAT16; computed in float32
 * stream       a CUstream of `device` (NULL: the default stream); not used on KW_CPU
 *
 * Pointers need only their element's alignment.
 */
KW_API kw_status kw_swiglu(int32_t device, void* stream, void* y, int64_t y_stride, const void* gate,
                           int64_t gate_stride, const void* up, int64_t up_stride, int64_t rows, int64_t cols,
                           int32_t dtype);

/*
 * The same of tensors of one shape and type, on the device they are on; or up is NULL and gate holds both, [gate | up]
 * in a last dimension twice that of y. KW_ERROR_INVALID_ARGUMENT also where the rows of one do not follow each other by
 * one stride, as those of x[:, ::2] or of a transposed tensor.
 */
KW_API kw_status kw_swiglu_tensors(void* stream, const kw_tensor* y, const kw_tensor* gate, const kw_tensor* up);

/*
 * The derivatives, from dy, that of y; s = 1 / (1 + exp(-gate)).
 *
 * dgate        dy * up * s * (1 + gate * (1 - s))
 * dup          dy * gate * s
 *
 * dgate may be `gate` itself and dup `up` itself; any other overlap is undefined. Everything else is as in kw_swiglu.
 */
KW_API kw_status kw_swiglu_backward(int32_t device, void* stream, void* dgate, int64_t dgate_stride, void* dup,
                                    int64_t dup_stride, const void* dy, int64_t dy_stride, const void* gate,
                                    int64_t gate_stride, const void* up, int64_t up_stride, int64_t rows, int64_t cols,
                                    int32_t dtype);

/* The same of tensors, as kw_swiglu_tensors; dup is NULL where up is, and dgate then holds both. */
KW_API kw_status kw_swiglu_backward_tensors(void* stream, const kw_tensor* dgate, const kw_tensor* dup,
                                            const kw_tensor* dy, const kw_tensor* gate, const kw_tensor* up);

#endif
