// SPDX-License-Identifier: MIT
// Activations of a float32, as templates: a switch inside an unrolled loop is four times the code.
#pragma once

#include "device/activation.h"
#include "device/ptx/math.cuh"

namespace kw {

// 1 / (1 + exp(-value)). Far below zero exp(-value) overflows, and the result is 0.
__device__ __forceinline__ float sigmoid(float value) {
  constexpr float kLog2E = 1.4426950408889634f;
  return reciprocal_approx(1.0f + exp2_approx(-kLog2E * value));
}

template <int kActivation>
__device__ __forceinline__ float activated(float value) {
  if constexpr (kActivation == KW_ACTIVATION_RELU) {
    return value < 0.0f ? 0.0f : value;  // a NaN stays
  } else if constexpr (kActivation == KW_ACTIVATION_SQUARED_RELU) {
    const float positive = value < 0.0f ? 0.0f : value;
    return positive * positive;
  } else if constexpr (kActivation == KW_ACTIVATION_SILU) {
    return value * sigmoid(value);
  } else if constexpr (kActivation == KW_ACTIVATION_GELU) {
    constexpr float kRootHalf = 0.7071067811865476f;
    return 0.5f * value * (1.0f + erff(value * kRootHalf));
  } else if constexpr (kActivation == KW_ACTIVATION_GELU_TANH) {
    constexpr float kTwiceRoot = 1.5957691216057308f;  // twice the root of 2 / pi
    return value * sigmoid(kTwiceRoot * fmaf(0.044715f * value * value, value, value));
  } else {
    return value;
  }
}

}  // namespace kw
