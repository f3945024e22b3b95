/* SPDX-License-Identifier: MIT */
/* Scaled dot-product attention: out = softmax(score(q * k^T)) * v, without the scores ever being in memory. */
#ifndef KERNELWRIGHT_ATTENTION_H
#define KERNELWRIGHT_ATTENTION_H

#include <kernelwright/base.h>

/*
 * All are tensors of four dimensions on one device, of any strides whose last dimension is contiguous:
 *
 * q             [batch, heads, queries, d] of KW_FLOAT16 or KW_BFLOAT16
 * k, v          [batch, kv_heads, keys, d] and [batch, kv_heads, keys, d_v] of the same type; heads is a multiple of
 *               kv_heads, and head h reads head h / (heads / kv_heads) of k and v. d and d_v: 1 to 256
 * out           result, [batch, heads, queries, d_v] of the same type; overlaps nothing
 * lse           result, [batch, heads, queries] of KW_FLOAT32, or NULL: the natural logarithm of the sum of the
 *               exponentials of a row's scores, and of its sink
 * mask          [batch, heads, queries, keys] of KW_UINT8, or NULL: 0 where a key takes no part. Any strides, 0 too
 * bias          the same shape, of the type of q or KW_FLOAT32, or NULL: added to the scores
 * sinks         [heads] of KW_FLOAT32, or NULL: one more score of each row of the head, of no key
 * alibi_slopes  [batch, heads] of KW_FLOAT32, any strides, or NULL: a score is less by its head's slope times the
 *               distance of the key from the query's position
 * causal        not 0: a query sees no key behind its position. Positions count from the end: query i stands at key
 *               i + keys - queries
 * window_left, window_right   how many keys before and behind its position a query sees; -1: all of them
 * scale         what the products are multiplied by; then, where softcap is not 0, a score is
 *               softcap * tanh(score / softcap); then slopes and bias are added, then mask, causal and window looked at
 * stream        a CUstream of the tensors' device (NULL: the default stream); not used on KW_CPU
 *
 * A row that sees no key has zeros in out, and in lse its sink, or minus infinity where there is none.
 */
KW_API kw_status kw_attention_tensors(void* stream, const kw_tensor* out, const kw_tensor* lse, const kw_tensor* q,
                                      const kw_tensor* k, const kw_tensor* v, const kw_tensor* mask,
                                      const kw_tensor* bias, const kw_tensor* sinks, const kw_tensor* alibi_slopes,
                                      int32_t causal, int64_t window_left, int64_t window_right, double scale,
                                      double softcap);

/*
 * The same of arrays without gaps, in the order of the dimensions above, with neither mask, bias nor slopes. dtype:
 * KW_FLOAT16 or KW_BFLOAT16. Pointers need only their element's alignment.
 */
KW_API kw_status kw_attention(int32_t device, void* stream, void* out, float* lse, const void* q, const void* k,
                              const void* v, const float* sinks, int64_t batch, int64_t heads, int64_t kv_heads,
                              int64_t queries, int64_t keys, int64_t d, int64_t d_v, int32_t dtype, int32_t causal,
                              int64_t window_left, int64_t window_right, double scale, double softcap);

/*
 * The derivatives of that by q, k and v, like them in shape and type and of any strides whose last dimension is
 * contiguous, and of the sinks ([heads] of KW_FLOAT32; NULL where not wanted). dout is the derivative by out; out and
 * lse are what kw_attention_tensors gave. workspace: what kw_attention_backward_workspace says, on 256 bytes.
 * deterministic: not 0 for the same bits in each run, which takes longer.
 */
KW_API kw_status kw_attention_backward_tensors(void* stream, const kw_tensor* dq, const kw_tensor* dk,
                                               const kw_tensor* dv, const kw_tensor* dsinks, const kw_tensor* dout,
                                               const kw_tensor* q, const kw_tensor* k, const kw_tensor* v,
                                               const kw_tensor* out, const kw_tensor* lse, const kw_tensor* mask,
                                               const kw_tensor* bias, const kw_tensor* sinks,
                                               const kw_tensor* alibi_slopes, void* workspace, int64_t workspace_bytes,
                                               int32_t causal, int64_t window_left, int64_t window_right,
                                               int32_t deterministic, double scale, double softcap);

/* Bytes of scratch memory that kw_attention_backward_tensors wants on this device for these sizes. */
KW_API kw_status kw_attention_backward_workspace(int32_t device, int64_t batch, int64_t heads, int64_t queries,
                                                 int64_t d, int64_t d_v, int32_t deterministic, int64_t* bytes);

#endif
