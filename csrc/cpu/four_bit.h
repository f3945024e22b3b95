// SPDX-License-Identifier: MIT
// What the CPU paths of the 4-bit operators share: values of codes, scales of blocks, pieces of a tensor.
#pragma once

#include "../cuda/include/four_bit_values.h"
#include "../host/ops/four_bit.h"
#include "isa.h"

namespace kw::cpu {

// A tensor is cut into pieces of so many elements: a multiple of every block size, so that pieces begin with a block.
constexpr int64_t kPiece = 4096;

inline int64_t pieces(int64_t count) { return (count + kPiece - 1) / kPiece; }

namespace KW_ISA {

alignas(64) constexpr float kCodeValues[2][16] = {{KW_NF4_VALUES}, {KW_FP4_VALUES}};  // by KW_NF4, KW_FP4

inline int code_of(const uint8_t* packed, int64_t element) { return packed[element / 2] >> (element % 2 ? 0 : 4) & 15; }

// Rounded after each step, as bitsandbytes does: compilers must not make one operation of the product and the sum.
inline float scale_of(const Scales4bit& s, int64_t block) {
  if (s.absmax != nullptr) return s.absmax[block];
  float product = s.map[s.codes[block]] * s.absmax2[block / kScalesABlock];
  __asm__("" : "+m"(product));
  return product + *s.offset;
}

}  // namespace KW_ISA
}  // namespace kw::cpu
