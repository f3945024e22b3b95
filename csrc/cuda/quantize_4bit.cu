// SPDX-License-Identifier: MIT
// The launcher (csrc/host/ops/quantize_4bit.cpp) refuses GPUs so far: this kernel only makes the operator's image one.

extern "C" __global__ void quantize_4bit_nothing() {}
