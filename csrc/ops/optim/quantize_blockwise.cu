// SPDX-License-Identifier: MIT
// Numbers into 8-bit codes of a map, with a scale for each block.
#include "ops/optim/device/quantize_blockwise.cuh"

// The names are the launcher's: quantize_blockwise_<type>.
#define KW_KERNEL(type, T)                                                                          \
  extern "C" __global__ void __launch_bounds__(kw::kBlockwiseThreads, kw::kQuantizeBlockwiseBlocks) \
      quantize_blockwise_##type(const KwQuantizeBlockwiseParams p) {                                \
    kw::quantize_blockwise<kw::T>(p);                                                               \
  }

KW_KERNEL(float32, Float32)
KW_KERNEL(float16, Float16)
KW_KERNEL(bfloat16, BFloat16)
