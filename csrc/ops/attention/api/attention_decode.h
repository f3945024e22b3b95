/* SPDX-License-Identifier: MIT */
/* Attention of few queries with a cache of keys and values, which may lie in pages and take new rows in the same call.
 */
#ifndef KERNELWRIGHT_ATTENTION_DECODE_H
#define KERNELWRIGHT_ATTENTION_DECODE_H

#include <kernelwright/base.h>

/*
 * All are tensors on one device, of any strides whose last dimension is contiguous. Pointers may be NULL where it is
 * said.
 *
 * q              [batch, heads, queries, d] of KW_FLOAT16 or KW_BFLOAT16, on KW_CPU of KW_FLOAT32 too
 * k, v           caches of the same type: [batch, kv_heads, rows, d] and [batch, kv_heads, rows, d_v]; with block_table
 *                [pages, kv_heads, rows of a page, ...]. Heads, d and d_v as in attention.h
 * k_new, v_new   [batch, kv_heads, new rows, ...], or both NULL: written to the caches behind the rows that they have,
 *                the keys turned by cos and sin, before attention looks at them
 * out            result, [batch, heads, queries, d_v]; lse [batch, heads, queries] of KW_FLOAT32, or NULL
 * lengths        [batch] of KW_INT32: the rows that each cache has, without new ones. NULL: it is full. What does not
 *                fit is as if it fitted at the end
 * block_table    [batch, pages of a cache] of KW_INT32, or NULL: row i of a cache is row i % rows of the page
 *                block_table[batch][i / rows]
 * batch_index    [batch] of KW_INT32, or NULL: which batch of the caches each of q's has
 * cos, sin       [max_positions, d / 2 or less], of the type of q, or both NULL: rope. Keys are turned by the position
 * where they are appended; queries from that of the first new row on, one position each where causal or a window is
 *                asked for, else all by the same
 * sinks, alibi_slopes, causal, window_left, window_right, scale, softcap   as in attention.h
 * interleaved    not 0: an element's partner in rope is its neighbour, else the one half of them behind it
 * workspace      what kw_attention_decode_workspace says for the same `splits`, on 16 bytes; NULL on KW_CPU
 * splits         parts that the keys of a sequence are split in, or 0 for as many as fill the GPU
 *
 * Lengths and tables are read on the device: one CUDA graph serves a cache that grows.
 */
KW_API kw_status kw_attention_decode_tensors(void* stream, const kw_tensor* out, const kw_tensor* lse,
                                             const kw_tensor* q, const kw_tensor* k, const kw_tensor* v,
                                             const kw_tensor* k_new, const kw_tensor* v_new, const kw_tensor* lengths,
                                             const kw_tensor* block_table, const kw_tensor* batch_index,
                                             const kw_tensor* cos, const kw_tensor* sin, const kw_tensor* sinks,
                                             const kw_tensor* alibi_slopes, void* workspace, int64_t workspace_bytes,
                                             int32_t causal, int64_t window_left, int64_t window_right,
                                             int32_t interleaved, int64_t splits, double scale, double softcap);

/*
 * The same of arrays without gaps: q [batch, heads, queries, d], k [batch, kv_heads, rows, d], v [batch, kv_heads,
 * rows, d_v], out like q with d_v, lse [batch, heads, queries] or NULL, lengths [batch] or NULL. dtype is theirs.
 */
KW_API kw_status kw_attention_decode(int32_t device, void* stream, void* out, float* lse, const void* q, const void* k,
                                     const void* v, const int32_t* lengths, void* workspace, int64_t workspace_bytes,
                                     int64_t batch, int64_t heads, int64_t kv_heads, int64_t queries, int64_t rows,
                                     int64_t d, int64_t d_v, int32_t dtype, int32_t causal, int64_t splits,
                                     double scale);

/* Bytes of scratch memory that such a call wants; `rows` are those that a cache has room for. */
KW_API kw_status kw_attention_decode_workspace(int32_t device, int64_t batch, int64_t heads, int64_t kv_heads,
                                               int64_t queries, int64_t rows, int64_t d, int64_t d_v, int64_t splits,
                                               int64_t* bytes);

#endif
