// SPDX-License-Identifier: MIT
// Squared ReLU of one tensor times another, by units of 16 bytes or by elements.
#include "ops/ternary/device/relu2.cuh"

#define RELU2_GATED_KERNEL(name, T, bytes, backward)                                                 \
  extern "C" __global__ void __launch_bounds__(256) relu2_gated_##name(const KwRelu2GatedParams p) { \
    kw::relu2_gated<kw::T, bytes, backward>(p);                                                      \
  }
#define RELU2_GATED_KERNELS(name, T)                          \
  RELU2_GATED_KERNEL(units_##name, T, 16, false)              \
  RELU2_GATED_KERNEL(units_backward_##name, T, 16, true)      \
  RELU2_GATED_KERNEL(elements_##name, T, kw::T::kSize, false) \
  RELU2_GATED_KERNEL(elements_backward_##name, T, kw::T::kSize, true)
RELU2_GATED_KERNELS(float32, Float32)
RELU2_GATED_KERNELS(float16, Float16)
RELU2_GATED_KERNELS(bfloat16, BFloat16)
