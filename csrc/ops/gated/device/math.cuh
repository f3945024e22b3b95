// SPDX-License-Identifier: MIT
// The gated activation of one element, forward and backward, in float32.
#pragma once

#include "device/ptx/math.cuh"

namespace kw {

// 1 / (1 + exp(-gate)), and what it lacks to 1. Both are made of exp(-|gate|), which does not overflow, so that neither
// is lost where it is small.
struct Sigmoid {
  float value, rest;
};

// kExact: to a few units in the last place of a float32. Without, the error of the exponent stays in, which grows with
// |gate| to 5e-6: nothing beside the rounding to 16 bits.
template <bool kExact>
__device__ __forceinline__ Sigmoid sigmoid(float gate) {
  constexpr float kLog2e = 1.44269504f, kLog2eRest = 1.92596303e-8f, kLn2 = 0.693147181f;
  // The bound gives the same 0 and keeps infinities, which would become NaN, out of what was lost.
  const float size = kExact ? fminf(fabsf(gate), 192.0f) : fabsf(gate);
  const float power = size * -kLog2e;
  float small = exp2_approx(power);
  if constexpr (kExact) {
    const float lost = fmaf(size, -kLog2eRest, fmaf(size, -kLog2e, -power));
    small = fmaf(small, lost * kLn2, small);
  }
  const float large = reciprocal_of_normal(1.0f + small);
  small *= large;
  return gate < 0.0f ? Sigmoid{small, large} : Sigmoid{large, small};
}

template <bool kExact>
__device__ __forceinline__ float swiglu(float gate, float up) {
  return gate * sigmoid<kExact>(gate).value * up;
}

// The derivatives, times dy; they take the place of gate and up.
template <bool kExact>
__device__ __forceinline__ void swiglu_backward(float dy, float& gate, float& up) {
  const Sigmoid s = sigmoid<kExact>(gate);
  const float silu = gate * s.value;
  gate = fmaf(silu, s.rest, s.value) * up * dy;
  up = silu * dy;
}

}  // namespace kw
