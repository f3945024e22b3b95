// SPDX-License-Identifier: MIT
// Code by code. Included by product.h alone.
#pragma once

namespace kw::cpu::scalar {

constexpr int kTileRows = 4;

template <int kM>
void multiply_group(const uint8_t* packed, int64_t blocks, const int8_t* x, int64_t x_pitch, int32_t* sums) {
  for (int64_t b = 0; b < blocks; ++b) {
    for (int at = 0; at < KW_TERNARY_BLOCK; ++at) {
      const int place = at / 64, row = place + at / 4 % 2 * 8;
      const unsigned codes = packed[b * KW_TERNARY_BLOCK + at];
      for (int m = 0; m < kM; ++m) {
        const int8_t* of = x + m * x_pitch + b * kSpreadBytes + at % 64;
        int sum = 0;
        for (int step = 0; step < KW_TERNARY_STEPS; ++step) {
          sum += static_cast<int>(codes >> (step * 2) & 3u) * of[step * 64];
        }
        sums[m * KW_TERNARY_ROWS + row] += sum;
      }
    }
  }
}

inline void spread(const int8_t* x, int8_t* to) { spread_words(x, to); }

}  // namespace kw::cpu::scalar
