// SPDX-License-Identifier: MIT
// The product by the CPU's matrix unit (AMX), for bfloat16: tiles of 16 rows of the weight times 16 rows of x, 32
// elements deep. The unit multiplies bfloat16 alone. So an element of the weight is two of them, its rounded value and
// what rounding left, which lose 2^-16 of it together; both are looked up, in tables that a block's scale gives. The
// next elements are looked up while the unit multiplies. Included by matmul_4bit.cpp alone.
//
// The unit takes subnormal numbers for zero, and infinity times the rest of a 1 is not a number: sizes of x and of
// scales beyond kLargest or (of scales) below kSmallest raise Product::odd, and the caller takes the usual way.
#pragma once

#include "ops/four_bit/cpu/product.h"

namespace kw::cpu::KW_ISA {
namespace {

#define KW_TILES [[gnu::target("amx-tile,amx-bf16,avx512bf16")]]

constexpr int kTileDepth = 32;  // elements of a row in a tile
constexpr int kTileSteps = 8;   // tiles along a row that are looked up together
constexpr int64_t kTileSpan = kTileDepth * kTileSteps;
constexpr int64_t kTileAhead = 4 * kTileSpan;
constexpr int kSumTiles = 4;
constexpr uint32_t kSmallest = (127u - 90u) << 23, kLargest = (127u + 100u) << 23;  // 2^-90 and 2^100, as floats' bits

struct alignas(64) TileShapes {
  uint8_t palette = 1, start = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// Some elements of 16 rows of the weight, as tiles.
struct alignas(64) WeightTiles {
  BFloat16 value[kTileSteps][kTileRows][kTileDepth], rest[kTileSteps][kTileRows][kTileDepth];
};

struct alignas(64) TileScratch {
  WeightTiles weight[2];
  float sums[kSumTiles][kTileRows][kTileRows];
};

// The values of 16 codes and what they lack.
struct TileTables {
  __m256i value, rest;

  TileTables() = default;
  KW_TILES TileTables(Vec values, float scale) {
    const Vec exact = mul(values, all(scale));
    value = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(exact));
    const __m512i back = _mm512_slli_epi32(_mm512_cvtepu16_epi32(value), 16);
    rest = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_sub_ps(exact, _mm512_castsi512_ps(back))));
  }
};

inline bool is_odd(float scale) {
  uint32_t size;
  memcpy(&size, &scale, sizeof size);
  size &= 0x7fffffffu;
  return size != 0 && size - kSmallest > kLargest - kSmallest;
}

// A span of a row of the weight, for row r of tiles; false: a scale is odd.
KW_TILES inline bool look_up(const Matmul4bit& a, int64_t row, int64_t span, int r, TileScratch* scratch) {
  WeightTiles* const to = &scratch->weight[span / kTileSpan % 2];
  const Vec values = load(kCodeValues[a.quant_type]);
  const int64_t first = row * a.k + span, end = first + (a.k - span < kTileSpan ? a.k - span : kTileSpan);
  const int shift = __builtin_ctz(static_cast<unsigned>(a.blocksize));
  // In this row or, near its end, in the next tile's. So many rows are read in turns that a CPU sees no pattern in it.
  const int64_t later = first + kTileAhead + (span + kTileAhead < a.k ? 0 : (kTileRows - 1) * a.k);
  fetch<kTileSpan / 2>(a.packed + later / 2);
  // All of the span's tables before any is used: each takes longer to make than to use, but they are made side by side.
  TileTables tables[kTileSteps];
  const int64_t block = first >> shift, last = (end - 1) >> shift;
  bool odd = false;
  for (int64_t i = 0; i <= last - block; ++i) {
    const float scale = scale_of(a.scales, block + i);
    odd |= is_odd(scale);
    tables[i] = TileTables(values, scale);
  }
  const __m512i lower = _mm512_set1_epi16(15);
  const uint8_t* p = a.packed + first / 2;
  BFloat16 *value = to->value[0][r], *rest = to->rest[0][r];
  for (int64_t i = first; i < end; i += kTileDepth, p += kTileDepth / 2) {
    const TileTables& t = tables[(i >> shift) - block];
    const __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    constexpr int kEitherAndMask = 0xa8;
    const __m512i codes =
        _mm512_ternarylogic_epi32(_mm512_srli_epi32(bytes, 4), _mm512_slli_epi32(bytes, 16), lower, kEitherAndMask);
    _mm512_store_si512(value, _mm512_permutexvar_epi16(codes, _mm512_castsi256_si512(t.value)));
    _mm512_store_si512(rest, _mm512_permutexvar_epi16(codes, _mm512_castsi256_si512(t.rest)));
    value += kTileRows * kTileDepth;
    rest += kTileRows * kTileDepth;
  }
  return !odd;
}

// GCC is not told by its instructions for tiles that they read and write memory.
inline void settle(const void* memory) { __asm__ volatile("" : : "r"(memory) : "memory"); }

// Adds one step's products: tiles 0 to 3 are sums, 4 and 5 the weight, 6 and 7 rows of x. A sum takes 52 cycles and the
// unit begins one every 16, so that few rows of x have several sums each.
template <int kGroups>
KW_TILES inline void multiply_step(const WeightTiles& weight, int64_t step, const BFloat16* x) {
  constexpr int64_t kPitch = 64, kElements = kTileRows * kTileDepth;
  settle(&weight);
  _tile_loadd(4, weight.value[step], kPitch);
  _tile_loadd(5, weight.rest[step], kPitch);
  _tile_loadd(6, x, kPitch);
  if constexpr (kGroups == 1) {
    if (step % 2 == 0) {
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 5, 6);
    } else {
      _tile_dpbf16ps(2, 4, 6);
      _tile_dpbf16ps(3, 5, 6);
    }
  } else if constexpr (kGroups == 2) {
    _tile_loadd(7, x + kElements, kPitch);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  } else {
    _tile_loadd(7, x + kElements, kPitch);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(0, 5, 6);
    _tile_dpbf16ps(1, 5, 7);
    _tile_loadd(6, x + 2 * kElements, kPitch);
    if constexpr (kGroups == 4) _tile_loadd(7, x + 3 * kElements, kPitch);
    _tile_dpbf16ps(2, 4, 6);
    if constexpr (kGroups == 4) _tile_dpbf16ps(3, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    if constexpr (kGroups == 4) _tile_dpbf16ps(3, 5, 7);
  }
}

// The sums of 16 rows of the weight (of `rows`, at the end) with all rows of x; false: a scale is odd.
template <int kGroups>
KW_TILES bool tile_sums(const Product& p, int64_t row, int rows, TileScratch* scratch) {
  const Matmul4bit& a = p.a;
  const auto* x = reinterpret_cast<const BFloat16*>(p.x);
  bool plain = true;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int r = 0; r < rows; ++r) plain &= look_up(a, row + r, 0, r, scratch);
  for (int64_t span = 0; span < a.k; span += kTileSpan) {
    const int64_t left = (a.k - span) / kTileDepth, steps = left < kTileSteps ? left : kTileSteps;
    const int64_t next = span + kTileSpan;
    int r = next < a.k ? 0 : rows;
    for (int64_t step = 0; step < steps; ++step, x += kGroups * kTileRows * kTileDepth) {
      multiply_step<kGroups>(scratch->weight[span / kTileSpan % 2], step, x);
      for (; r < rows && r < (step + 1) * kTileRows / kTileSteps; ++r) plain &= look_up(a, row + r, next, r, scratch);
    }
  }
  _tile_stored(0, scratch->sums[0], 64);
  _tile_stored(1, scratch->sums[1], 64);
  _tile_stored(2, scratch->sums[2], 64);
  _tile_stored(3, scratch->sums[3], 64);
  settle(scratch);
  return plain;
}

// From `sums[...][row of the weight][row of x]`.
template <int kGroups>
void finish_tiles(const Product& p, int64_t row, int rows, const TileScratch& scratch) {
  constexpr int kShares = kGroups == 1 ? 4 : kGroups == 2 ? 2 : 1;  // tiles that one sum was shared among
  for (int64_t m = 0; m < p.a.m; ++m) {
    float sums[kTileRows] = {};
    for (int r = 0; r < rows; ++r) {
      for (int s = 0; s < kShares; ++s) sums[r] += scratch.sums[m / kTileRows + s * kGroups][r][m % kTileRows];
    }
    finish_as<BFloat16>(p.a, m, row, sums, rows);
  }
}

template <int kGroups>
KW_TILES void product_of_tiles(const Product& p, int64_t begin, int64_t end) {
  TileScratch scratch;
  memset(&scratch, 0, sizeof scratch);
  const TileShapes shapes;
  settle(&shapes);
  _tile_loadconfig(&shapes);
  bool plain = true;
  for (int64_t tile = begin; tile < end && plain; ++tile) {
    const int64_t row = tile * kTileRows, left = p.a.n - row;
    const int rows = static_cast<int>(left < kTileRows ? left : kTileRows);
    plain = tile_sums<kGroups>(p, row, rows, &scratch);
    finish_tiles<kGroups>(p, row, rows, scratch);
  }
  _tile_release();
  if (!plain) __atomic_store_n(p.odd, 1, __ATOMIC_RELAXED);
}

// Steps of x as tiles: row i of one has elements 2 i and 2 i + 1 of 16 rows of x.
inline void tile_x(const Product& p, int64_t begin, int64_t end) {
  const int64_t groups = tile_groups(p.a.m);
  const __m512i sizes = _mm512_set1_epi16(0x7fff), largest = _mm512_set1_epi16(static_cast<short>(kLargest >> 16));
  __mmask32 odd = 0;
  for (int64_t tile = begin * groups; tile < end * groups; ++tile) {
    const int64_t first = tile % groups * kTileRows, step = tile / groups;
    uint32_t rows[kTileRows][kTileDepth / 2] = {};
    for (int64_t m = first; m < first + kTileRows && m < p.a.m; ++m) {
      const auto* x = static_cast<const BFloat16*>(p.a.x) + m * p.a.x_stride + step * kTileDepth;
      const __m512i bits = _mm512_loadu_si512(x);
      odd |= _mm512_cmpgt_epu16_mask(_mm512_and_si512(bits, sizes), largest);
      _mm512_storeu_si512(rows[m - first], bits);
    }
    auto* to = reinterpret_cast<uint32_t*>(p.x) + tile * kTileRows * kTileDepth / 2;
    for (int i = 0; i < kTileDepth / 2; ++i)
      for (int m = 0; m < kTileRows; ++m) *to++ = rows[m][i];
  }
  if (odd != 0) __atomic_store_n(p.odd, 1, __ATOMIC_RELAXED);
}

}  // namespace

void product_4bit_tile_inputs(const void* context, int64_t begin, int64_t end) {
  tile_x(*static_cast<const Product*>(context), begin, end);
}

void product_4bit_tiles(const void* context, int64_t begin, int64_t end) {
  const Product& p = *static_cast<const Product*>(context);
  if (p.a.m <= 16) return product_of_tiles<1>(p, begin, end);
  if (p.a.m <= 32) return product_of_tiles<2>(p, begin, end);
  if (p.a.m <= 48) return product_of_tiles<3>(p, begin, end);
  return product_of_tiles<4>(p, begin, end);
}

}  // namespace kw::cpu::KW_ISA
