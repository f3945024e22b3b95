/* SPDX-License-Identifier: MIT */
/* A step of an optimizer whose states are 8-bit codes of maps, in blocks of 256: parameters and states are changed in
 * place. */
#ifndef KERNELWRIGHT_OPTIMIZER_UPDATE_8BIT_BLOCKWISE_H
#define KERNELWRIGHT_OPTIMIZER_UPDATE_8BIT_BLOCKWISE_H

#include <kernelwright/base.h>

/*
 * With g = grad_scale * grad, in float32; c1 = 1 - beta1^step, c2 = sqrt(1 - beta2^step). Where the rule is momentum,
 * rmsprop or adagrad, g grows by weight_decay * param; else param is first multiplied by 1 - lr * weight_decay. Then
 *
 *   KW_ADAM      m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g g, param -= lr (m / c1) / (sqrt(v) / c2 +
 * eps) KW_ADEMAMIX  n = beta3 n + (1 - beta3) g too, param -= lr (m / c1 + alpha n) / (sqrt(v) / c2 + eps) KW_MOMENTUM
 * m = beta1 m + g, or g at the first step, param -= lr m KW_RMSPROP   v = beta1 v + (1 - beta1) g g, param -= lr g /
 * (sqrt(v) + eps) KW_ADAGRAD   v = v + g g, param -= lr g / (sqrt(v) + eps) KW_LION      param -= lr sign(beta1 m + (1
 * - beta1) g), then m = beta2 m + (1 - beta2) g
 *
 * param      `count` elements of `dtype`, without a gap
 * grad       like param, read only
 * state1     m, or v where it is alone: `count` codes, whose values are map1[code] times their block's scale. Of
 * KW_ADEMAMIX m and behind it n, twice `count` state2     v of KW_ADAM and KW_ADEMAMIX, by map2; else it is not used
 * absmax1    the scales of state1, one for each 256 elements; of KW_ADEMAMIX those of m and behind them those of n
 * absmax2    those of state2
 * map1       256 values in order from -1 or 0 to 1; states become codes as kw_quantize_blockwise has it
 * map2       those of state2
 * optimizer  the numbers of the step, in host memory
 * dtype      of param and grad: KW_FLOAT32, KW_FLOAT16, KW_BFLOAT16
 * stream     a CUstream of `device` (NULL: the default stream); not used on KW_CPU
 *
 * Pointers need only their element's alignment. What is written must overlap nothing else.
 */
KW_API kw_status kw_optimizer_update_8bit_blockwise(int32_t device, void* stream, void* param, const void* grad,
                                                    uint8_t* state1, uint8_t* state2, float* absmax1, float* absmax2,
                                                    const float* map1, const float* map2, const kw_optimizer* optimizer,
                                                    int64_t count, int32_t dtype);

/* The same for many tensors, in host memory: forty a launch. */
KW_API kw_status kw_optimizer_update_8bit_blockwise_many(int32_t device, void* stream,
                                                         const kw_optimizer_tensor* tensors, int64_t number,
                                                         const float* map1, const float* map2,
                                                         const kw_optimizer* optimizer, int32_t dtype);

/* kw_optimizer_update_8bit_blockwise_many by the numbers that lie in `moving` (kw_optimizer_advance). */
KW_API kw_status kw_optimizer_update_8bit_blockwise_moving(int32_t device, void* stream,
                                                           const kw_optimizer_tensor* tensors, int64_t number,
                                                           const float* map1, const float* map2, const void* moving,
                                                           const kw_optimizer* optimizer, int32_t dtype);

#endif
