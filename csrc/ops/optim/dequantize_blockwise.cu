// SPDX-License-Identifier: MIT
// 8-bit codes of a map into numbers.
#include "ops/optim/device/dequantize_blockwise.cuh"

// The names are the launcher's: dequantize_blockwise_<type>.
#define KW_KERNEL(type, T)                                                                            \
  extern "C" __global__ void __launch_bounds__(kw::kBlockwiseThreads, kw::kDequantizeBlockwiseBlocks) \
      dequantize_blockwise_##type(const KwDequantizeBlockwiseParams p) {                              \
    kw::dequantize_blockwise<kw::T>(p);                                                               \
  }

KW_KERNEL(float32, Float32)
KW_KERNEL(float16, Float16)
KW_KERNEL(bfloat16, BFloat16)
