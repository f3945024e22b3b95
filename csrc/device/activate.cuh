// SPDX-License-Identifier: MIT
// Several numbers by an activation that is known at run time.
#pragma once

#include "device/activation.cuh"

namespace kw {

template <int kActivation, u32 kCount>
__device__ __forceinline__ void activate_all(float (&value)[kCount]) {
#pragma unroll
  for (u32 i = 0; i < kCount; ++i) value[i] = activated<kActivation>(value[i]);
}

// A branch for each: it must stand once in a kernel.
template <u32 kCount>
__device__ __forceinline__ void activate(float (&value)[kCount], int activation) {
  switch (activation) {
    case KW_ACTIVATION_RELU:
      return activate_all<KW_ACTIVATION_RELU>(value);
    case KW_ACTIVATION_SQUARED_RELU:
      return activate_all<KW_ACTIVATION_SQUARED_RELU>(value);
    case KW_ACTIVATION_SILU:
      return activate_all<KW_ACTIVATION_SILU>(value);
    case KW_ACTIVATION_GELU:
      return activate_all<KW_ACTIVATION_GELU>(value);
    case KW_ACTIVATION_GELU_TANH:
      return activate_all<KW_ACTIVATION_GELU_TANH>(value);
    default:
      return;
  }
}

}  // namespace kw
