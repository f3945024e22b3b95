// SPDX-License-Identifier: MIT
// Products of bytes, summed in 16 bits for as long as they fit: one is at most 3 * 128. Included by product.h alone.
#pragma once

#include <arm_neon.h>

namespace kw::cpu::neon {

constexpr int kTileRows = 4;

// Blocks whose sums fit into 16 bits: 32 products a lane each.
constexpr int64_t kShortBlocks = 2;

// Row `place` and the one 8 after it.
template <int kM>
void multiply_place(const uint8_t* packed, int64_t blocks, const int8_t* x, int64_t x_pitch, int32_t* sums) {
  const int8x16_t low = vdupq_n_s8(3);
  int32x4_t total[kM];
  for (int m = 0; m < kM; ++m) total[m] = vdupq_n_s32(0);
  for (int64_t first = 0; first < blocks; first += kShortBlocks) {
    const int64_t last = blocks - first < kShortBlocks ? blocks : first + kShortBlocks;
    int16x8_t sum[kM];
    for (int m = 0; m < kM; ++m) sum[m] = vdupq_n_s16(0);
    for (int64_t b = first; b < last; ++b) {
      for (int at = 0; at < 64; at += 16) {
        uint8x16_t codes = vld1q_u8(packed + b * KW_TERNARY_BLOCK + at);
        for (int step = 0; step < KW_TERNARY_STEPS; ++step) {
          const int8x16_t weight = vandq_s8(vreinterpretq_s8_u8(codes), low);
          codes = vshrq_n_u8(codes, 2);
          for (int m = 0; m < kM; ++m) {
            const int8x16_t of = vld1q_s8(x + m * x_pitch + b * kSpreadBytes + step * 64 + at);
            sum[m] = vmlal_s8(sum[m], vget_low_s8(weight), vget_low_s8(of));
            sum[m] = vmlal_high_s8(sum[m], weight, of);
          }
        }
      }
    }
    for (int m = 0; m < kM; ++m) total[m] = vpadalq_s16(total[m], sum[m]);
  }
  for (int m = 0; m < kM; ++m) {
    const int32x4_t pairs = vpaddq_s32(total[m], total[m]);
    sums[m * KW_TERNARY_ROWS] += vgetq_lane_s32(pairs, 0);
    sums[m * KW_TERNARY_ROWS + 8] += vgetq_lane_s32(pairs, 1);
  }
}

template <int kM>
void multiply_group(const uint8_t* packed, int64_t blocks, const int8_t* x, int64_t x_pitch, int32_t* sums) {
  for (int place = 0; place < 8; ++place) multiply_place<kM>(packed + place * 64, blocks, x, x_pitch, sums + place);
}

inline void spread(const int8_t* x, int8_t* to) { spread_words(x, to); }

}  // namespace kw::cpu::neon
