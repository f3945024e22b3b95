// SPDX-License-Identifier: MIT
#include "device/elementwise.cuh"

namespace kw {

struct LeakyRelu {
  static constexpr int kInputs = 1, kOutputs = 1;
  static __device__ __forceinline__ void apply(const float* in, float* out, const float* number) {
    out[0] = in[0] < 0.0f ? number[0] * in[0] : in[0];
  }
};

}  // namespace kw

KW_ELEMENTWISE_KERNELS(leaky_relu, kw::LeakyRelu)
