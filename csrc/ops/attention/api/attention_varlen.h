/* SPDX-License-Identifier: MIT */
/* Attention of sequences of different lengths that lie one after the other, without padding. */
#ifndef KERNELWRIGHT_ATTENTION_VARLEN_H
#define KERNELWRIGHT_ATTENTION_VARLEN_H

#include <kernelwright/base.h>

/*
 * As kw_attention_tensors (attention.h), of tensors without the dimension of batches:
 *
 * q             [total_q, heads, d]
 * k, v          [total_k, kv_heads, d] and [total_k, kv_heads, d_v]
 * out           [total_q, heads, d_v]
 * lse           [heads, total_q] of KW_FLOAT32, or NULL
 * cu_seqlens_q, cu_seqlens_k   [batch + 1] of KW_INT32 on the same device, contiguous: sequence i has the rows from
 *               cu_seqlens[i] to cu_seqlens[i + 1]. Rows that no sequence has are left as they are in out
 * alibi_slopes  [batch, heads]
 * max_q, max_k  no sequence is longer: of more rows than that nothing is computed
 * Results' rows of no sequence, such as padding behind the last, stay as they are.
 */
KW_API kw_status kw_attention_varlen_tensors(void* stream, const kw_tensor* out, const kw_tensor* lse,
                                             const kw_tensor* q, const kw_tensor* k, const kw_tensor* v,
                                             const kw_tensor* cu_seqlens_q, const kw_tensor* cu_seqlens_k,
                                             const kw_tensor* sinks, const kw_tensor* alibi_slopes, int64_t max_q,
                                             int64_t max_k, int32_t causal, int64_t window_left, int64_t window_right,
                                             double scale, double softcap);

/*
 * The same of arrays without gaps, in the order of the dimensions above, with no slopes: q of total_q rows, k and v of
 * total_k, cu_seqlens_q and cu_seqlens_k of batch + 1 numbers. dtype is that of q, k, v and out.
 */
KW_API kw_status kw_attention_varlen(int32_t device, void* stream, void* out, float* lse, const void* q, const void* k,
                                     const void* v, const int32_t* cu_seqlens_q, const int32_t* cu_seqlens_k,
                                     const float* sinks, int64_t batch, int64_t heads, int64_t kv_heads,
                                     int64_t total_q, int64_t total_k, int64_t max_q, int64_t max_k, int64_t d,
                                     int64_t d_v, int32_t dtype, int32_t causal, int64_t window_left,
                                     int64_t window_right, double scale, double softcap);

/* The derivatives, as kw_attention_backward_tensors'. */
KW_API kw_status kw_attention_varlen_backward_tensors(
    void* stream, const kw_tensor* dq, const kw_tensor* dk, const kw_tensor* dv, const kw_tensor* dsinks,
    const kw_tensor* dout, const kw_tensor* q, const kw_tensor* k, const kw_tensor* v, const kw_tensor* out,
    const kw_tensor* lse, const kw_tensor* cu_seqlens_q, const kw_tensor* cu_seqlens_k, const kw_tensor* sinks,
    const kw_tensor* alibi_slopes, void* workspace, int64_t workspace_bytes, int64_t max_q, int64_t max_k,
    int32_t causal, int64_t window_left, int64_t window_right, int32_t deterministic, double scale, double softcap);

/* Bytes of scratch memory that kw_attention_varlen_backward_tensors wants on this device for these sizes. */
KW_API kw_status kw_attention_varlen_backward_workspace(int32_t device, int64_t batch, int64_t heads, int64_t total_q,
                                                        int64_t d, int64_t d_v, int32_t deterministic, int64_t* bytes);

#endif
