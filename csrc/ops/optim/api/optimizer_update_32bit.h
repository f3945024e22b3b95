/* SPDX-License-Identifier: MIT */
/* A step of an optimizer whose states are float32: parameters and states are changed in place. */
#ifndef KERNELWRIGHT_OPTIMIZER_UPDATE_32BIT_H
#define KERNELWRIGHT_OPTIMIZER_UPDATE_32BIT_H

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
 * state1     m, or v where it is alone: `count` floats. Of KW_ADEMAMIX m
 *            and behind it n, twice `count`
 * state2     v of KW_ADAM and KW_ADEMAMIX; else it is not used
 * optimizer  the numbers of the step, in host memory
 * dtype      of param and grad: KW_FLOAT32, KW_FLOAT16, KW_BFLOAT16
 * stream     a CUstream of `device` (NULL: the default stream); not used on KW_CPU
 *
 * Pointers need only their element's alignment. What is written must overlap nothing else.
 */
KW_API kw_status kw_optimizer_update_32bit(int32_t device, void* stream, void* param, const void* grad, float* state1,
                                           float* state2, const kw_optimizer* optimizer, int64_t count, int32_t dtype);

/* The same for many tensors, in host memory: forty a launch. */
KW_API kw_status kw_optimizer_update_32bit_many(int32_t device, void* stream, const kw_optimizer_tensor* tensors,
                                                int64_t number, const kw_optimizer* optimizer, int32_t dtype);

/*
 * A step whose number moves on in the memory of its tensors' device, so that a CUDA graph of these two calls takes the
 * next step each time it is replayed. kw_optimizer_advance makes the numbers of the next step; then the functions with
 * `moving` take it, for as many tensors as it is meant for.
 *
 * moving            64 bytes of the device's memory at a multiple of 8: zeros before the first step. Its first eight
 *                   are an int64_t: how many steps were taken
 * optimizer         the numbers of the first step since then, in host memory: the n-th after it has the number step + n
 * lr, alpha, beta3  of the step, each in the device's memory, instead of the optimizer's; or NULL
 */
KW_API kw_status kw_optimizer_advance(int32_t device, void* stream, void* moving, const double* lr, const double* alpha,
                                      const double* beta3, const kw_optimizer* optimizer);

/* kw_optimizer_update_32bit_many by the numbers that lie in `moving`. */
KW_API kw_status kw_optimizer_update_32bit_moving(int32_t device, void* stream, const kw_optimizer_tensor* tensors,
                                                  int64_t number, const void* moving, const kw_optimizer* optimizer,
                                                  int32_t dtype);

#endif
