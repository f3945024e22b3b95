// SPDX-License-Identifier: MIT
// e4m3 on the CPU, by integers that compilers make vectors of.
#pragma once

#include <string.h>

#include "cpu/simd.h"

namespace kw::cpu::KW_ISA {
namespace {

// To nearest even, of numbers up to 448; 0x7f of a NaN.
[[maybe_unused]] inline uint8_t e4m3_of(float value) {
  uint32_t bits, small;
  memcpy(&bits, &value, sizeof bits);
  const uint32_t size = bits & 0x7fffffffu, usual = ((size + 0x7ffffu + (size >> 20 & 1)) >> 20) - (120u << 3);
  const float positive = value < 0.0f ? -value : value, sum = positive + 16384.0f;  // which has no bits below 2^-9
  memcpy(&small, &sum, sizeof small);
  const uint32_t code = (size < 0x3c800000u ? small - 0x46800000u : usual) | (bits >> 24 & 0x80u);
  return static_cast<uint8_t>(size > 0x7f800000u ? 0x7fu : code);
}

// 2^-8 of the number, as float16 has it exactly.
[[maybe_unused]] inline uint16_t half_of_e4m3(uint8_t code) {
  const uint32_t size = code & 0x7fu, bits = size == 0x7fu ? 0x7e00u : size << 7;
  return static_cast<uint16_t>(bits | (code & 0x80u) << 8);
}

}  // namespace
}  // namespace kw::cpu::KW_ISA
