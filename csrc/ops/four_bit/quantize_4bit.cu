// SPDX-License-Identifier: MIT
// Numbers into 4-bit codes with a scale for each block, and those scales into 8-bit codes.
#include "ops/four_bit/device/quantize_4bit.cuh"
#include "ops/four_bit/device/quantize_absmax.cuh"

// The names are the launcher's: quantize_4bit_<type>.
#define KW_KERNEL(type, T)                                                                \
  extern "C" __global__ void __launch_bounds__(kw::kQuantizeThreads, kw::kQuantizeBlocks) \
      quantize_4bit_##type(const KwQuantize4bitParams p) {                                \
    kw::quantize_4bit<kw::T>(p);                                                          \
  }

KW_KERNEL(float32, Float32)
KW_KERNEL(float16, Float16)
KW_KERNEL(bfloat16, BFloat16)

extern "C" __global__ void __launch_bounds__(kw::kAbsmaxThreads)
    quantize_4bit_absmax(const KwQuantizeAbsmax4bitParams p) {
  kw::quantize_4bit_absmax(p);
}
