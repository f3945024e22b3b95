// SPDX-License-Identifier: MIT
// Four products of bytes and their sum in 32 bits by one instruction (VNNI). A CPU with AVX-512 that lacks it runs the
// copy for AVX2. One of the factors is without a sign: the weight's numbers plus 128, which is one bit changed. What x
// times 128 adds to a sum is known for each row of x, and taken off at the end. On the way sums may leave 32 bits; they
// wrap, and so the end is exact. Included by matmul_int8.cpp alone.
#pragma once

#define KW_VNNI __attribute__((target("avx512vnni")))

namespace kw::cpu::avx512 {
namespace {

constexpr bool kByteProducts = true;

inline int32_t total_of(__m512i v) {
  const __m256i eight = _mm256_add_epi32(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 1)));
}

// The bytes from `at` on that are less than k, and 0 for the others.
inline __m512i bytes_at(const int8_t* row, int64_t at, int64_t k) {
  return _mm512_maskz_loadu_epi8(~0ull >> (64 - (k - at)), row + at);
}

// 128 times the sum of a row.
KW_VNNI inline int32_t offset_of_row(const int8_t* row, int64_t k) {
  const __m512i by = _mm512_set1_epi8(-128);  // 128 without a sign
  __m512i sum = _mm512_setzero_si512();
  int64_t at = 0;
  for (; at + 64 <= k; at += 64) sum = _mm512_dpbusd_epi32(sum, by, _mm512_loadu_si512(row + at));
  if (at < k) sum = _mm512_dpbusd_epi32(sum, by, bytes_at(row, at, k));
  return total_of(sum);
}

// kM rows of x and kN of the weight. The place of the next kN rows is asked for meanwhile: CPUs look ahead by
// themselves, but not from one row to the next.
template <int kM, int kN>
KW_VNNI void byte_products(const ByteProduct& a, int64_t row, int64_t column, const int32_t* offsets,
                           int32_t (&sums)[kM][kN]) {
  const int8_t* const x = a.x + row * a.x_stride;
  const int8_t* const weight = a.weight + column * a.weight_stride;
  const auto next = static_cast<uintptr_t>(kN * a.weight_stride);
  const __m512i flip = _mm512_set1_epi8(-128);
  __m512i sum[kM][kN];
  for (auto& of_row : sum) {
    for (__m512i& one : of_row) one = _mm512_setzero_si512();
  }
  int64_t at = 0;
  for (; at + 64 <= a.k; at += 64) {
    __m512i of[kN];
    for (int j = 0; j < kN; ++j) {
      const int8_t* const from = weight + j * a.weight_stride + at;
      of[j] = _mm512_xor_si512(_mm512_loadu_si512(from), flip);
      __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(from) + next), 0, 2);
    }
    for (int i = 0; i < kM; ++i) {
      const __m512i left = _mm512_loadu_si512(x + i * a.x_stride + at);
      for (int j = 0; j < kN; ++j) sum[i][j] = _mm512_dpbusd_epi32(sum[i][j], of[j], left);
    }
  }
  if (at < a.k) {
    for (int i = 0; i < kM; ++i) {
      const __m512i left = bytes_at(x + i * a.x_stride, at, a.k);
      for (int j = 0; j < kN; ++j) {
        const __m512i of = _mm512_xor_si512(bytes_at(weight + j * a.weight_stride, at, a.k), flip);
        sum[i][j] = _mm512_dpbusd_epi32(sum[i][j], of, left);
      }
    }
  }
  for (int i = 0; i < kM; ++i) {
    for (int j = 0; j < kN; ++j) {
      sums[i][j] = static_cast<int32_t>(static_cast<uint32_t>(total_of(sum[i][j])) - static_cast<uint32_t>(offsets[i]));
    }
  }
}

}  // namespace
}  // namespace kw::cpu::avx512
