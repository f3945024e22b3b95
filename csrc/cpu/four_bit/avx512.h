// SPDX-License-Identifier: MIT
// 16 floats fill a register: a permutation looks up 16 codes. It takes the lowest bits of each lane for an index, so
// that codes need no mask. Included by four_bit.h alone.
#pragma once

namespace kw::cpu::avx512 {

// --- a chunk of codes for the product of few rows: nibble i of each 32-bit lane makes vector i

constexpr int kChunk = 128;
constexpr int kTileCols = 4;

constexpr int element_at(int position) { return position % 16 * 8 + (position / 16 ^ 1); }

struct Values {
  Vec all_of_them;
  explicit Values(const float* values) : all_of_them(load(values)) {}
};

using Codes = __m512i;

inline Codes load_codes(const Values&, const uint8_t* p) { return _mm512_loadu_si512(p); }

template <int kStep>
Vec value(const Values& values, Codes codes) {
  return _mm512_permutexvar_ps(kStep == 0 ? codes : _mm512_srli_epi32(codes, 4 * kStep), values.all_of_them);
}

// Of a chunk with 1, 2 or 4 scales, in the lanes of their codes.
inline Vec chunk_scales(const float* scales, int count) {
  if (count == 1) return all(scales[0]);
  if (count == 2) return _mm512_mask_broadcastss_ps(all(scales[0]), 0xff00, _mm_load_ss(scales + 1));
  const __m512i four = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
  return _mm512_permutexvar_ps(four, _mm512_castps128_ps512(_mm_loadu_ps(scales)));
}

inline Vec looked_up(const float* map, const uint8_t* codes) {
  const __m128i places = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
  return _mm512_i32gather_ps(_mm512_cvtepu8_epi32(places), map, 4);
}

// Keeps compilers from making one operation of a product and a sum.
inline Vec rounded_once(Vec v) {
  __asm__("" : "+v"(v));
  return v;
}

// --- 32 codes, in their order

template <class T>
struct Table {
  __m512i twice;  // the 16 elements, so that the fifth bit of an index says nothing

  Table(const float* values, float scale) {
    T elements[16];
    store(elements, mul(load(values), all(scale)));
    twice = _mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(elements)));
  }

  void decode(const uint8_t* p, T* y) const {
    const __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    const __m512i codes = _mm512_or_si512(_mm512_srli_epi32(bytes, 4), _mm512_slli_epi32(bytes, 16));
    _mm512_storeu_si512(y, _mm512_permutexvar_epi16(codes, twice));
  }
};

template <>
struct Table<float> {
  Vec once;

  Table(const float* values, float scale) : once(mul(load(values), all(scale))) {}

  void decode(const uint8_t* p, float* y) const {
    const __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    const Vec even = _mm512_permutexvar_ps(_mm512_srli_epi32(bytes, 4), once);
    const Vec odd = _mm512_permutexvar_ps(bytes, once);
    const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const __m512i high = _mm512_set_epi32(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8);
    store(y, _mm512_permutex2var_ps(even, low, odd));
    store(y + kLanes, _mm512_permutex2var_ps(even, high, odd));
  }
};

}  // namespace kw::cpu::avx512
