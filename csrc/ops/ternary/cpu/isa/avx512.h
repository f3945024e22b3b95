// SPDX-License-Identifier: MIT
// Products of four bytes, summed in 32 bits by one instruction (VNNI). A CPU with AVX-512 that lacks it runs the copy
// for AVX2. Included by product.h alone.
#pragma once

#include "cpu/simd/avx512.h"

#define KW_VNNI __attribute__((target("avx512vnni")))

namespace kw::cpu::avx512 {

constexpr int kTileRows = 5;

// Of row `place` in the even 32-bit lanes, of row place + 8 in the odd ones.
inline void add_lanes(__m512i v, int32_t* first, int32_t* second) {
  const __m256i eight = _mm256_add_epi32(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
  *first += _mm_cvtsi128_si32(two);
  *second += _mm_extract_epi32(two, 1);
}

// One row of x: codes stay where they are in their bytes, as 1, 4, 16 or 64 times what they are, and each place has
// sums of its own. That saves the shifts.
KW_VNNI inline void multiply_one(const uint8_t* packed, int64_t blocks, const int8_t* x, int32_t* sums) {
  __m512i sum[KW_TERNARY_STEPS][4];
  for (auto& of_step : sum) {
    for (__m512i& one : of_step) one = _mm512_setzero_si512();
  }
  for (int64_t b = 0; b < blocks; ++b) {
    __m512i of[KW_TERNARY_STEPS];
    for (int step = 0; step < KW_TERNARY_STEPS; ++step) of[step] = _mm512_loadu_si512(x + b * kSpreadBytes + step * 64);
    for (int i = 0; i < 4; ++i) {
      const __m512i codes = _mm512_loadu_si512(packed + b * KW_TERNARY_BLOCK + i * 64);
      for (int step = 0; step < KW_TERNARY_STEPS; ++step) {
        const __m512i weight = _mm512_and_si512(codes, _mm512_set1_epi8(static_cast<char>(3 << (step * 2))));
        sum[step][i] = _mm512_dpbusd_epi32(sum[step][i], weight, of[step]);
      }
    }
  }
  for (int i = 0; i < 4; ++i) {
    __m512i all = sum[0][i];
    for (int step = 1; step < KW_TERNARY_STEPS; ++step) {
      all = _mm512_add_epi32(all, _mm512_srai_epi32(sum[step][i], static_cast<unsigned>(step * 2)));
    }
    add_lanes(all, sums + i, sums + i + 8);
  }
}

// Four rows and those 8 after them.
template <int kM>
KW_VNNI void multiply_places(const uint8_t* packed, int64_t blocks, const int8_t* x, int64_t x_pitch, int32_t* sums) {
  const __m512i low = _mm512_set1_epi8(3);
  __m512i sum[kM][4];
  for (auto& of_row : sum) {
    for (__m512i& one : of_row) one = _mm512_setzero_si512();
  }
  for (int64_t b = 0; b < blocks; ++b) {
    __m512i codes[4];
    for (int i = 0; i < 4; ++i) codes[i] = _mm512_loadu_si512(packed + b * KW_TERNARY_BLOCK + i * 64);
    for (int step = 0; step < KW_TERNARY_STEPS; ++step) {
      __m512i weight[4];
      for (int i = 0; i < 4; ++i) {
        weight[i] = _mm512_and_si512(_mm512_srli_epi16(codes[i], static_cast<unsigned>(step * 2)), low);
      }
      for (int m = 0; m < kM; ++m) {
        const __m512i of = _mm512_loadu_si512(x + m * x_pitch + b * kSpreadBytes + step * 64);
        for (int i = 0; i < 4; ++i) sum[m][i] = _mm512_dpbusd_epi32(sum[m][i], weight[i], of);
      }
    }
  }
  for (int i = 0; i < kM * 4; ++i) {
    int32_t* of = sums + i / 4 * KW_TERNARY_ROWS + i % 4;
    add_lanes(sum[i / 4][i % 4], of, of + 8);
  }
}

template <int kM>
void multiply_group(const uint8_t* packed, int64_t blocks, const int8_t* x, int64_t x_pitch, int32_t* sums) {
  for (int place = 0; place < 8; place += 4) {
    if constexpr (kM == 1) {
      multiply_one(packed + place * 64, blocks, x, sums + place);
    } else {
      multiply_places<kM>(packed + place * 64, blocks, x, x_pitch, sums + place);
    }
  }
}

inline void spread(const int8_t* x, int8_t* to) {
  const __m512i places = _mm512_setr_epi32(0, 0, 4, 4, 1, 1, 5, 5, 2, 2, 6, 6, 3, 3, 7, 7);
  for (int step = 0; step < KW_TERNARY_STEPS; ++step) {
    const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + step * 32));
    _mm512_storeu_si512(to + step * 64, _mm512_permutexvar_epi32(places, _mm512_castsi256_si512(words)));
  }
}

}  // namespace kw::cpu::avx512
