/* SPDX-License-Identifier: MIT */
/* The product of rows of 8-bit floats (e4m3), scaled by rows and columns, with bias and activation. */
#ifndef KERNELWRIGHT_MATMUL_FP8_H
#define KERNELWRIGHT_MATMUL_FP8_H

#include <kernelwright/base.h>

/*
 * Of row i of x and row j of the weight, in float32:
 *
 *   y[i, j] = activation(sum(x[i, :] * weight[j, :]) * (x_scale[i] * weight_scale[j]) + bias[j])
 *
 * Tensor cores keep about 14 bits of a sum of e4m3 products; every 128 of k at most their sums are added to float32, as
 * torch._scaled_mm does with use_fast_accum=False.
 *
 * y             result, `m` rows of `n` elements of `dtype`; must not overlap anything else
 * x, weight     `m` and `n` rows of `k` e4m3 bytes (torch.float8_e4m3fn)
 * x_scale       `m` float32; NULL: 1
 * weight_scale  `n` float32; NULL: 1
 * bias          `n` elements of `bias_dtype`; NULL for none
 * m, n, k       any may be 0
 * *_stride      elements from one row to the next; within a row elements are adjacent
 * activation    0 none, 1 ReLU, 2 squared ReLU, 3 SiLU, 4 GELU, 5 GELU by tanh, as kw_linear numbers them
 * dtype         KW_FLOAT32, KW_FLOAT16, KW_BFLOAT16
 * bias_dtype    KW_FLOAT32, KW_FLOAT16, KW_BFLOAT16
 * stream        a CUstream of `device` (NULL: the default stream); not used on KW_CPU
 *
 * Pointers need only their element's alignment. The kernels for tensor cores want x and weight on 16 bytes with strides
 * that are multiples of 16. Of up to 16 rows of x they need compute capability 8.0 and k a multiple of 16; of more a
 * GPU with wgmma; or such a k and an image with fp8_mma (targets.toml), which a build by a newer toolkit than that of
 * the default wheels has for 8.9 and 12.0. Other calls take a general kernel, which is slow but for small ones.
 */
KW_API kw_status kw_matmul_fp8(int32_t device, void* stream, void* y, int64_t y_stride, const void* x, int64_t x_stride,
                               const void* weight, int64_t weight_stride, const float* x_scale,
                               const float* weight_scale, const void* bias, int64_t m, int64_t n, int64_t k,
                               int32_t activation, int32_t dtype, int32_t bias_dtype);

/*
 * Whether kw_matmul_fp8 is the fast way for such a call on that device: *yes is 1 where a kernel for tensor cores takes
 * it, where it is so small that one launch is all it takes, and on KW_CPU. Else it is 0: a BLAS of dequantized matrices
 * is likely faster. `alignment`: bytes that the addresses and rows of x and weight are multiples of.
 */
KW_API kw_status kw_matmul_fp8_fits(int32_t device, int64_t m, int64_t n, int64_t k, int64_t alignment, int32_t* yes);

#endif
