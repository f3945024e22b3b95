// SPDX-License-Identifier: MIT
// The checked arguments of the 4-bit operators, as launchers and CPU paths see them.
#pragma once

#include "ops/four_bit/api/quantize_4bit.h"

namespace kw {

constexpr int64_t kScalesABlock = 256;  // of the second quantization

// The scales of a 4-bit tensor's blocks: `absmax`, or the four others.
struct Scales4bit {
  const float* absmax;
  const uint8_t* codes;
  const float* absmax2;
  const float* map;
  const float* offset;
  int64_t part_blocks;  // blocks of each part that has an offset; 0: there is one
  int64_t parts;
};

struct Quantize4bit {
  uint8_t* packed;
  float* absmax;
  const void* x;
  int64_t count;
  int32_t blocksize, quant_type, dtype;
};

struct QuantizeAbsmax4bit {
  uint8_t* codes;
  float* absmax2;
  const float* absmax;
  const float* offset;
  const float* map;
  int64_t count;
};

struct Dequantize4bit {
  void* y;
  const uint8_t* packed;
  Scales4bit scales;
  int64_t count;
  int32_t blocksize, quant_type, dtype;
};

struct Matmul4bit {
  void* y;
  const void* x;
  const uint8_t* packed;
  Scales4bit scales;
  const void* bias;  // nullptr: none
  void* workspace;
  int64_t y_stride, x_stride;
  int64_t m, n, k;
  int32_t blocksize, quant_type, dtype;
};

namespace cpu {
// Run on the thread pool; arguments were checked, and no result is empty.
kw_status quantize_4bit(const Quantize4bit& args);
kw_status quantize_4bit_absmax(const QuantizeAbsmax4bit& args);
kw_status dequantize_4bit(const Dequantize4bit& args);
kw_status matmul_4bit(const Matmul4bit& args);
kw_status product_4bit(const Matmul4bit& args);  // what it and experts' are made of
int64_t product_4bit_workspace(int64_t m, int64_t k);
}  // namespace cpu

}  // namespace kw
