// SPDX-License-Identifier: MIT
// 16 floats fill a register: a permutation looks up 16 codes. It takes the lowest bits of each lane for an index, so
// that codes need no mask. Included by four_bit.h alone.
#pragma once

namespace kw::cpu::avx512 {

// --- chunks of codes for the product of few rows

constexpr int kTileCols = 4;

struct Values {
  Vec all_of_them;
  Values() = default;
  explicit Values(const float* values) : all_of_them(load(values)) {}
};

using Codes = __m512i;

// Nibble i of each 32-bit lane makes vector i.
struct Chunks {
  static constexpr int kSize = 128;
  static constexpr bool kScaleFirst = false;

  static constexpr int element_at(int position) { return position % 16 * 8 + (position / 16 ^ 1); }

  static Codes load_codes(const Values&, const uint8_t* p) { return _mm512_loadu_si512(p); }

  template <int kStep>
  static Vec value(const Values& values, Codes codes) {
    return _mm512_permutexvar_ps(kStep == 0 ? codes : _mm512_srli_epi32(codes, 4 * kStep), values.all_of_them);
  }

  // Of a chunk with 1, 2 or 4 scales, in the lanes of their codes.
  template <int kCount>
  static Vec scales(const float* scales) {
    if constexpr (kCount == 1) return all(scales[0]);
    if constexpr (kCount == 2) return _mm512_mask_broadcastss_ps(all(scales[0]), 0xff00, _mm_load_ss(scales + 1));
    const __m512i four = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
    return _mm512_permutexvar_ps(four, _mm512_castps128_ps512(_mm_loadu_ps(scales)));
  }
};

// Both halves of a register hold the same codes: nibble i of the lower half and i + 4 of the upper one make vector i.
// It takes one shift more, but but for the smallest blocks all codes have one scale: values are scaled before they are
// multiplied, and no register holds sums without it.
struct HalfChunks {
  static constexpr int kSize = 64;
  static constexpr bool kScaleFirst = true;

  static constexpr int element_at(int position) {
    return position % 8 * 8 + ((position / 16 + position / 8 % 2 * 4) ^ 1);
  }

  static Values scaled(Values values, float scale) {
    values.all_of_them = mul(values.all_of_them, all(scale));
    return values;
  }

  static Codes load_codes(const Values&, const uint8_t* p) {
    return _mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }

  template <int kStep>
  static Vec value(const Values& values, Codes codes) {
    constexpr int kLow = 4 * kStep, kHigh = kLow + 16;
    const __m512i by = _mm512_set_epi32(kHigh, kHigh, kHigh, kHigh, kHigh, kHigh, kHigh, kHigh, kLow, kLow, kLow, kLow,
                                        kLow, kLow, kLow, kLow);
    return _mm512_permutexvar_ps(_mm512_srlv_epi32(codes, by), values.all_of_them);
  }

  // Of a chunk with 1 or 2 scales, in the lanes of their codes.
  template <int kCount>
  static Vec scales(const float* scales) {
    if constexpr (kCount == 1) return all(scales[0]);
    return _mm512_mask_broadcastss_ps(all(scales[0]), 0xf0f0, _mm_load_ss(scales + 1));
  }
};

// Up to kFewRows rows of x are few; of kMoreRows and more, MoreChunks are taken.
using MoreChunks = HalfChunks;
constexpr int64_t kMoreRows = 4, kFewRows = 8;

// Elements at these places among kCount.
template <int kCount>
Vec picked(const float* from, __m512i places) {
  if constexpr (kCount == 2 * kLanes) {
    return _mm512_permutex2var_ps(load(from), places, load(from + kLanes));
  } else {
    const __mmask16 later = _mm512_test_epi32_mask(places, _mm512_set1_epi32(kCount / 2));
    return _mm512_mask_blend_ps(later, picked<kCount / 2>(from, places), picked<kCount / 2>(from + kCount / 2, places));
  }
}

template <class Chunk>
struct Places {
  int32_t of[Chunk::kSize];
  constexpr Places() : of() {
    for (int at = 0; at < Chunk::kSize; ++at) of[at] = Chunk::element_at(at);
  }
};

#define KW_FOUR_BIT_PUT_IN_CHUNKS
template <class Chunk>
void put_in_chunks(const float* elements, float* to) {
  alignas(64) static constexpr Places<Chunk> kPlaces;
  for (int at = 0; at < Chunk::kSize; at += kLanes)
    store(to + at, picked<Chunk::kSize>(elements, _mm512_load_si512(kPlaces.of + at)));
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
