// SPDX-License-Identifier: MIT
// The factors of 8-bit floats: of a head's queries, keys and values.
#pragma once

#include "device/types.cuh"
#include "ops/attention/fp8_params.h"

namespace kw {

struct Fp8Factors {
  float of_scores, of_values;

  __device__ __forceinline__ static float read(const KwHeadScales& scales, int batch, int head) {
    return scales.data == nullptr ? 1.0f : scales.data[batch * scales.batch + head * scales.head];
  }

  __device__ __forceinline__ Fp8Factors(const KwAttentionFp8Scales& scales, const KwAttentionSizes& sizes, float scale,
                                        int batch, int head) {
    const int kv_head = head / (sizes.heads / sizes.kv_heads);
    of_scores = read(scales.q, batch, head) * read(scales.k, batch, kv_head) * scale;
    of_values = read(scales.v, batch, kv_head);
  }

  // What the softmax multiplies products by, for powers of 2; `first`: what they are multiplied by before. Products are
  // compared as they are, so the softmax can take no factor that is not positive; and of one so large that a score, of
  // products up to 448 * 448 * 128, has no bits behind the point left, the largest would not be the power that it is.
  __device__ __forceinline__ float multiplier(float* first) const {
    constexpr float kLog2E = 1.4426950408889634f;
    const float of_powers = of_scores * kLog2E;
    const bool usual = of_powers > 1e-20f && of_powers <= 0.5f;
    *first = usual ? 1.0f : of_powers;
    return usual ? of_powers : 1.0f;
  }
};

}  // namespace kw
