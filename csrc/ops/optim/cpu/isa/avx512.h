// SPDX-License-Identifier: MIT
// Values of 16 codes at a time, by permutations: the whole map is in registers. Included by codes.h alone.
#pragma once

namespace kw::cpu::avx512 {
namespace {

constexpr int64_t kMapLanes = 16;

struct MapValues {
  __m512 part[16];

  explicit MapValues(const float* map) {
    for (int i = 0; i < 16; ++i) part[i] = _mm512_loadu_ps(map + i * 16);
  }

  // Each permutation looks at five bits of a code, the other three choose among them.
  void at(const uint8_t* codes, float scale, float* y) const {
    const __m512i places = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)));
    __m512 found[8];
    for (int i = 0; i < 8; ++i) found[i] = _mm512_permutex2var_ps(part[2 * i], places, part[2 * i + 1]);
    for (int count = 4, bit = 32; count > 0; count /= 2, bit *= 2) {
      const __mmask16 odd = _mm512_test_epi32_mask(places, _mm512_set1_epi32(bit));
      for (int i = 0; i < count; ++i) found[i] = _mm512_mask_blend_ps(odd, found[2 * i], found[2 * i + 1]);
    }
    _mm512_storeu_ps(y, _mm512_mul_ps(found[0], all(scale)));
  }
};

}  // namespace
}  // namespace kw::cpu::avx512
