// SPDX-License-Identifier: MIT
// Products of bytes in pairs, summed in 16 bits for as long as they fit: a pair is at most 2 * 3 * 128. Included by
// product.h alone.
#pragma once

#include <immintrin.h>

namespace kw::cpu::avx2 {

constexpr int kTileRows = 4;

// Blocks whose sums fit into 16 bits: 8 vectors each.
constexpr int64_t kShortBlocks = 5;

// Of row `place` in the even 32-bit lanes, of row place + 8 in the odd ones.
inline void add_lanes(__m256i v, int32_t* first, int32_t* second) {
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  const __m128i two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
  *first += _mm_cvtsi128_si32(two);
  *second += _mm_extract_epi32(two, 1);
}

// Rows `place` and `place` + 1, and those 8 after them.
template <int kM>
void multiply_places(const uint8_t* packed, int64_t blocks, const int8_t* x, int64_t x_pitch, int32_t* sums) {
  const __m256i low = _mm256_set1_epi8(3), ones = _mm256_set1_epi16(1);
  __m256i total[kM][2];
  for (auto& of_row : total) of_row[0] = of_row[1] = _mm256_setzero_si256();
  for (int64_t first = 0; first < blocks; first += kShortBlocks) {
    const int64_t last = blocks - first < kShortBlocks ? blocks : first + kShortBlocks;
    __m256i sum[kM][2];
    for (auto& of_row : sum) of_row[0] = of_row[1] = _mm256_setzero_si256();
    for (int64_t b = first; b < last; ++b) {
      for (int half = 0; half < 64; half += 32) {
        __m256i codes[2];
        for (int i = 0; i < 2; ++i) {
          const auto* from = packed + b * KW_TERNARY_BLOCK + i * 64 + half;
          codes[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
        }
        for (int step = 0; step < KW_TERNARY_STEPS; ++step) {
          for (int i = 0; i < 2; ++i) {
            const __m256i weight = _mm256_and_si256(_mm256_srli_epi16(codes[i], step * 2), low);
            for (int m = 0; m < kM; ++m) {
              const auto* of = x + m * x_pitch + b * kSpreadBytes + step * 64 + half;
              const __m256i pairs =
                  _mm256_maddubs_epi16(weight, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(of)));
              sum[m][i] = _mm256_add_epi16(sum[m][i], pairs);
            }
          }
        }
      }
    }
    for (int i = 0; i < kM * 2; ++i)
      total[i / 2][i % 2] = _mm256_add_epi32(total[i / 2][i % 2], _mm256_madd_epi16(sum[i / 2][i % 2], ones));
  }
  for (int i = 0; i < kM * 2; ++i) {
    int32_t* of = sums + i / 2 * KW_TERNARY_ROWS + i % 2;
    add_lanes(total[i / 2][i % 2], of, of + 8);
  }
}

template <int kM>
void multiply_group(const uint8_t* packed, int64_t blocks, const int8_t* x, int64_t x_pitch, int32_t* sums) {
  for (int place = 0; place < 8; place += 2) multiply_places<kM>(packed + place * 64, blocks, x, x_pitch, sums + place);
}

inline void spread(const int8_t* x, int8_t* to) {
  const __m256i first = _mm256_setr_epi32(0, 0, 4, 4, 1, 1, 5, 5), second = _mm256_setr_epi32(2, 2, 6, 6, 3, 3, 7, 7);
  for (int step = 0; step < KW_TERNARY_STEPS; ++step) {
    const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + step * 32));
    auto* out = reinterpret_cast<__m256i*>(to + step * 64);
    _mm256_storeu_si256(out, _mm256_permutevar8x32_epi32(words, first));
    _mm256_storeu_si256(out + 1, _mm256_permutevar8x32_epi32(words, second));
  }
}

}  // namespace kw::cpu::avx2
