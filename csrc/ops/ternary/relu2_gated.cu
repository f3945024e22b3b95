// SPDX-License-Identifier: MIT
// y = relu(gate)^2 * up, and its derivatives.
#include "device/elementwise.cuh"

namespace kw {

struct Relu2Gated {
  static constexpr int kInputs = 2, kOutputs = 1;
  static __device__ __forceinline__ void apply(const float* in, float* out, const float*) {
    const float positive = in[0] < 0.0f ? 0.0f : in[0];
    out[0] = positive * positive * in[1];
  }
};

struct Relu2GatedBackward {
  static constexpr int kInputs = 3, kOutputs = 2;
  static __device__ __forceinline__ void apply(const float* in, float* out, const float*) {
    const float dy = in[0], positive = in[1] < 0.0f ? 0.0f : in[1];
    out[0] = 2.0f * positive * (dy * in[2]);
    out[1] = dy * (positive * positive);
  }
};

}  // namespace kw

KW_ELEMENTWISE_KERNELS(relu2_gated, kw::Relu2Gated)
KW_ELEMENTWISE_KERNELS(relu2_gated_backward, kw::Relu2GatedBackward)
