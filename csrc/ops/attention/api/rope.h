/* SPDX-License-Identifier: MIT */
/* Rotary position embeddings (rope) of queries and keys. */
#ifndef KERNELWRIGHT_ROPE_H
#define KERNELWRIGHT_ROPE_H

#include <kernelwright/base.h>

/*
 * Turns pairs (x, y) of the first `rotary_dim` elements of each row by the angle of the row's position: to
 * (x * cos - y * sin, y * cos + x * sin), computed in float32. Other elements are copied.
 *
 * All are tensors on one device, of any strides whose last dimension is contiguous. Pointers may be NULL where it is
 * said.
 *
 * q              [batch, heads, rows, d] of KW_FLOAT32, KW_FLOAT16 or KW_BFLOAT16; d up to 65536
 * k              [batch, its own heads, rows, d] of the same type, or NULL
 * q_out, k_out   results of the same sizes; each may be its input itself, any other overlap is undefined. k_out is NULL
 *                where k is
 * cos, sin       of the same type or of KW_FLOAT32: [max_positions, n], or [batch or 1, rows, n] with a row for each of
 * q's. n is rotary_dim / 2; or rotary_dim, with an entry for each element of q: then those of a pair are equal, and
 * that of its first element is read positions      which row of cos and sin each row has, or NULL for its number.
 * KW_INT32: [batch or 1, rows], or [batch], the position of the first row. A row that is not there is the nearest that
 * is rotary_dim     an even number from 2 to d interleaved    not 0: pairs are neighbours (GPT-J), else the one half of
 * the elements and the other (GPT-NeoX) inverse        not 0: turns back, which is the derivative
 *
 * Positions are read on the device.
 */
KW_API kw_status kw_rope_tensors(void* stream, const kw_tensor* q_out, const kw_tensor* k_out, const kw_tensor* q,
                                 const kw_tensor* k, const kw_tensor* cos, const kw_tensor* sin,
                                 const kw_tensor* positions, int64_t rotary_dim, int32_t interleaved, int32_t inverse);

/*
 * The same of arrays without gaps, all of `dtype`: q and q_out [batch, heads, rows, d], k and k_out [batch, kv_heads,
 * rows, d] or NULL, cos and sin [max_positions, rotary_dim / 2]; positions [batch] or NULL.
 */
KW_API kw_status kw_rope(int32_t device, void* stream, void* q_out, void* k_out, const void* q, const void* k,
                         const void* cos, const void* sin, const int32_t* positions, int64_t batch, int64_t heads,
                         int64_t kv_heads, int64_t rows, int64_t max_positions, int64_t d, int64_t rotary_dim,
                         int32_t dtype, int32_t interleaved, int32_t inverse);

#endif
