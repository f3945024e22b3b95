// SPDX-License-Identifier: MIT
// A call of attention of 8-bit floats after its checks, for the CPU and the GPU alike.
#pragma once

#include "ops/attention/host/attention.h"

namespace kw {

// A factor of each head of each batch, or none: data is null. Elements.
struct HeadScales {
  const float* data;
  int64_t batch, head;

  float of(int64_t at_batch, int64_t at_head) const {
    return data == nullptr ? 1.0f : data[at_batch * batch + at_head * head];
  }
};

// `of.dtype` is that of results; q, k and v have e4m3 bytes.
struct AttentionFp8 {
  Attention of;
  HeadScales q_scale, k_scale, v_scale;
};

namespace cpu {
kw_status attention_fp8(const AttentionFp8& args);
}  // namespace cpu

kw_status launch_attention_fp8(const char* name, int32_t device, void* stream, const AttentionFp8& a);

// Whether tensor cores take such a call there, of which sizes, result and alignment are known.
kw_status attention_fp8_fits(int32_t device, const Attention& a, int64_t alignment, bool* yes);

}  // namespace kw
