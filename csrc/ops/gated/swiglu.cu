// SPDX-License-Identifier: MIT
// The gated activation of rows, silu(gate) * up, and its derivatives. Which of these kernels runs, and with how many
// threads, is the launcher's choice (csrc/ops/gated/host/plan.h).
//
//   flat     one run of units of 16 bytes: tensors without gaps, whatever their shape; its ends may lie off 16 bytes
//   rows     rows of such units with gaps between them, all equally far off 16 bytes
//   shifted  rows unequally far off
//   element  short unaligned rows
#include "ops/gated/device/run.cuh"
#include "ops/gated/device/shifted.cuh"

// The names are the launcher's: swiglu_<shape>[_backward]_<type>. Of whole blocks a multiprocessor holds at
// least `blocks`, which bounds the registers. The last argument of swiglu_run is how many units a thread may have
// under way.
#define KW_KERNEL(name, blocks, ...)                                                                               \
  extern "C" __global__ void __launch_bounds__(kw::kSwigluThreads, blocks) swiglu_##name(const KwSwigluParams p) { \
    __VA_ARGS__(p);                                                                                                \
  }
#define KW_KERNELS(type, T)                                                                               \
  KW_KERNEL(flat_##type, 6, kw::swiglu_run<kw::T, 16, false, false, kw::kSwigluSlots>)                    \
  KW_KERNEL(flat_backward_##type, 6, kw::swiglu_run<kw::T, 16, false, true, kw::kSwigluBackwardSlots>)    \
  KW_KERNEL(rows_##type, 6, kw::swiglu_run<kw::T, 16, true, false, kw::kSwigluSlots>)                     \
  KW_KERNEL(rows_backward_##type, 6, kw::swiglu_run<kw::T, 16, true, true, kw::kSwigluBackwardSlots>)     \
  KW_KERNEL(shifted_##type, 3, kw::swiglu_shifted<kw::T, false>)                                          \
  KW_KERNEL(shifted_backward_##type, 4, kw::swiglu_shifted<kw::T, true>)                                  \
  KW_KERNEL(element_##type, 4, kw::swiglu_run<kw::T, kw::T::kSize, true, false, kw::kSwigluElementSlots>) \
  KW_KERNEL(element_backward_##type, 4, kw::swiglu_run<kw::T, kw::T::kSize, true, true, kw::kSwigluElementSlots>)

KW_KERNELS(float32, Float32)
KW_KERNELS(float16, Float16)
KW_KERNELS(bfloat16, BFloat16)
