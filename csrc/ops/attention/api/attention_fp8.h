/* SPDX-License-Identifier: MIT */
/* Attention of 8-bit floats (e4m3), each head with factors of its own: out = softmax(q * k^T * scale) * v. */
#ifndef KERNELWRIGHT_ATTENTION_FP8_H
#define KERNELWRIGHT_ATTENTION_FP8_H

#include <kernelwright/base.h>

/*
 * All are tensors on one device. Those of four dimensions are of any strides whose last dimension is contiguous:
 *
 * q             [batch, heads, queries, d] of KW_FLOAT8_E4M3FN (torch.float8_e4m3fn)
 * k, v          [batch, kv_heads, keys, d] and [batch, kv_heads, keys, d_v] of the same type; heads is a multiple of
 *               kv_heads, and head h reads head h / (heads / kv_heads) of k and v. d and d_v: 1 to 256
 * q_scale       [batch, heads] of KW_FLOAT32, of any strides, 0 too, or NULL: 1. What q's elements stand for is their
 *               number times this
 * k_scale, v_scale   the same of k and v, [batch, kv_heads]
 * out           result, [batch, heads, queries, d_v] of KW_FLOAT16, KW_BFLOAT16 or KW_FLOAT32; overlaps nothing
 * lse           result, [batch, heads, queries] of KW_FLOAT32, or NULL: the natural logarithm of the sum of the
 *               exponentials of a row's scores
 * causal        not 0: a query sees no key behind its position. Positions count from the end: query i stands at key
 *               i + keys - queries
 * window_left, window_right   how many keys before and behind its position a query sees; -1: all of them
 * scale         a score is the product times q_scale * k_scale * scale, in float32
 * stream        a CUstream of the tensors' device (NULL: the default stream); not used on KW_CPU
 *
 * v_scale multiplies results. A row that sees no key has zeros in out and minus infinity in lse. Scores, and factors,
 * that float32 cannot hold make a row NaN.
 *
 * GPUs with wgmma multiply on FP8 tensor cores where d and d_v are both 64 or both 128, results have 16 bits, and rows
 * of q, k and v begin on 16 bytes. Those keep about 14 bits of a sum of products, and shares are rounded to e4m3 (3
 * bits behind the leading one) before they multiply v. Any other call on a GPU takes a general kernel in float32, which
 * is slow but for small ones.
 */
KW_API kw_status kw_attention_fp8_tensors(void* stream, const kw_tensor* out, const kw_tensor* lse, const kw_tensor* q,
                                          const kw_tensor* k, const kw_tensor* v, const kw_tensor* q_scale,
                                          const kw_tensor* k_scale, const kw_tensor* v_scale, int32_t causal,
                                          int64_t window_left, int64_t window_right, double scale);

/*
 * The same of arrays without gaps, in the order of the dimensions above. per_head: not 0 where q_scale is
 * [batch, heads], and k_scale and v_scale are [batch, kv_heads]; 0 where each is one number. Each may be NULL. dtype is
 * that of out. Pointers need only their element's alignment.
 */
KW_API kw_status kw_attention_fp8(int32_t device, void* stream, void* out, float* lse, const void* q, const void* k,
                                  const void* v, const float* q_scale, const float* k_scale, const float* v_scale,
                                  int32_t per_head, int64_t batch, int64_t heads, int64_t kv_heads, int64_t queries,
                                  int64_t keys, int64_t d, int64_t d_v, int32_t dtype, int32_t causal,
                                  int64_t window_left, int64_t window_right, double scale);

/*
 * Whether that is the fast way for such a call on that device: *yes is 1 where tensor cores take it, where it is so
 * small that it does not matter, and on KW_CPU. Else it is 0: kw_attention of what the numbers stand for is likely
 * faster. `alignment`: bytes that the addresses and strides of q, k and v are multiples of.
 */
KW_API kw_status kw_attention_fp8_fits(int32_t device, int64_t batch, int64_t heads, int64_t queries, int64_t keys,
                                       int64_t d, int64_t d_v, int32_t dtype, int64_t alignment, int32_t* yes);

#endif
