// SPDX-License-Identifier: MIT
// Sums of products of bytes and codes: what the instruction sets have in common. Included once for each of them.
//
// Eight bytes of a lane's 16 in a block belong to one row and eight to another, four at a time, so that x is needed
// with each of its words twice, in the lanes' order: 256 bytes for 128 of k.
#pragma once

#include <string.h>

#include "cpu/simd.h"
#include "ops/ternary/host/ternary.h"

namespace kw::cpu::KW_ISA {

constexpr int64_t kSpreadBytes = 2 * KW_TERNARY_DEPTH;

// 128 of k, by words of four.
inline void spread_words(const int8_t* x, int8_t* to) {
  for (int step = 0; step < KW_TERNARY_STEPS; ++step) {
    for (int word = 0; word < 16; ++word) {
      memcpy(to + step * 64 + word * 4, x + step * 32 + (word % 4 / 2 * 4 + word / 4) * 4, 4);
    }
  }
}

}  // namespace kw::cpu::KW_ISA

#define KW_TERNARY_FILE_scalar "ops/ternary/cpu/isa/scalar.h"
#define KW_TERNARY_FILE_avx2 "ops/ternary/cpu/isa/avx2.h"
#define KW_TERNARY_FILE_avx512 "ops/ternary/cpu/isa/avx512.h"
#define KW_TERNARY_FILE_neon "ops/ternary/cpu/isa/neon.h"
#include KW_CPU_JOIN(KW_TERNARY_FILE_, KW_ISA)
