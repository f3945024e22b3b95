// SPDX-License-Identifier: MIT
// Rotary position embeddings of q and k: pairs of a row's first elements are turned by the angles of its position.
// Which kernel runs is the launcher's choice (csrc/ops/attention/host/rope_plan.h).
//
//   vectors  rows and tables that lie on 16 bytes, in which items are whole
//   element  any others
#include "ops/attention/device/rope.cuh"

#define KW_KERNEL(name, ...) \
  extern "C" __global__ void __launch_bounds__(kw::kRopeThreads) rope_##name(const KwRopeParams p) { __VA_ARGS__(p); }
#define KW_KERNELS(type, T)                          \
  KW_KERNEL(vectors_##type, kw::rope_run<kw::T, 16>) \
  KW_KERNEL(element_##type, kw::rope_run<kw::T, kw::T::kSize>)

KW_KERNELS(float32, Float32)
KW_KERNELS(float16, Float16)
KW_KERNELS(bfloat16, BFloat16)
