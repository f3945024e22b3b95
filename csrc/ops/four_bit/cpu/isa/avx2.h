// SPDX-License-Identifier: MIT
// 16 floats fill two registers: a permutation of each looks up the lower three bits of 8 codes, and the fourth bit
// picks. Included by four_bit.h alone.
#pragma once

namespace kw::cpu::avx2 {

// --- chunks of codes for the product of few rows

constexpr int kTileCols = 2;

struct Values {
  Vec low, high;
  explicit Values(const float* values) : low(load(values)), high(load(values + kLanes)) {}
  Values(const float* values, float scale)
      : low(mul(load(values), all(scale))), high(mul(load(values + 8), all(scale))) {}

  // By the lowest three bits of `places`, and the sign of `fourth`.
  Vec at(__m256i places, __m256i fourth) const {
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, places), _mm256_permutevar8x32_ps(high, places),
                            _mm256_castsi256_ps(fourth));
  }
};

using Codes = __m256i;

// Nibble i of each 32-bit lane makes vector i.
struct Chunks {
  static constexpr int kSize = 64;
  static constexpr bool kScaleFirst = false;

  static constexpr int element_at(int position) { return position % 8 * 8 + (position / 8 ^ 1); }

  static Codes load_codes(const Values&, const uint8_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }

  template <int kStep>
  static Vec value(const Values& values, Codes codes) {
    return values.at(kStep == 0 ? codes : _mm256_srli_epi32(codes, 4 * kStep),
                     kStep == 7 ? codes : _mm256_slli_epi32(codes, 28 - 4 * kStep));
  }

  // Of a chunk with 1 or 2 scales, in the lanes of their codes.
  template <int kCount>
  static Vec scales(const float* scales) {
    return kCount == 1 ? all(scales[0]) : _mm256_set_m128(_mm_set1_ps(scales[1]), _mm_set1_ps(scales[0]));
  }
};

using MoreChunks = Chunks;
constexpr int64_t kMoreRows = 3, kFewRows = 4;

inline Vec looked_up(const float* map, const uint8_t* codes) {
  const __m128i places = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes));
  return _mm256_i32gather_ps(map, _mm256_cvtepu8_epi32(places), 4);
}

// Keeps compilers from making one operation of a product and a sum.
inline Vec rounded_once(Vec v) {
  __asm__("" : "+x"(v));
  return v;
}

// --- 32 codes, in their order

// One code a byte, the first 16 in the lower half.
inline __m256i bytes_of(const uint8_t* p) {
  const __m128i mask = _mm_set1_epi8(15), both = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  const __m128i first = _mm_and_si128(_mm_srli_epi16(both, 4), mask), second = _mm_and_si128(both, mask);
  return _mm256_set_m128i(_mm_unpackhi_epi8(first, second), _mm_unpacklo_epi8(first, second));
}

template <class T>
struct Table {
  __m256i lower, upper;  // bytes of the 16 elements, in both halves

  Table(const float* values, float scale) {
    T elements[16];
    const Values scaled(values, scale);
    store(elements, scaled.low);
    store(elements + kLanes, scaled.high);
    const __m128i mask = _mm_set1_epi16(255);
    const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(elements));
    const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(elements + kLanes));
    lower = _mm256_broadcastsi128_si256(_mm_packus_epi16(_mm_and_si128(a, mask), _mm_and_si128(b, mask)));
    upper = _mm256_broadcastsi128_si256(_mm_packus_epi16(_mm_srli_epi16(a, 8), _mm_srli_epi16(b, 8)));
  }

  void decode(const uint8_t* p, T* y) const {
    const __m256i codes = bytes_of(p);
    const __m256i low = _mm256_shuffle_epi8(lower, codes), high = _mm256_shuffle_epi8(upper, codes);
    const __m256i a = _mm256_unpacklo_epi8(low, high), b = _mm256_unpackhi_epi8(low, high);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), _mm256_permute2x128_si256(a, b, 0x20));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + 16), _mm256_permute2x128_si256(a, b, 0x31));
  }
};

template <>
struct Table<float> {
  Values scaled;

  Table(const float* values, float scale) : scaled(values, scale) {}

  void eight(__m128i codes, float* y) const {
    const __m256i places = _mm256_cvtepu8_epi32(codes);
    store(y, scaled.at(places, _mm256_slli_epi32(places, 28)));
  }

  void decode(const uint8_t* p, float* y) const {
    const __m256i codes = bytes_of(p);
    const __m128i first = _mm256_castsi256_si128(codes), second = _mm256_extracti128_si256(codes, 1);
    eight(first, y);
    eight(_mm_srli_si128(first, 8), y + 8);
    eight(second, y + 16);
    eight(_mm_srli_si128(second, 8), y + 24);
  }
};

}  // namespace kw::cpu::avx2
