// SPDX-License-Identifier: MIT
// What the CPU paths of the 4-bit operators share: values of codes, scales of blocks, pieces of a tensor.
//
// four_bit/<isa>.h brings, all in namespace kw::cpu::KW_ISA:
//   Values, Codes                    the 16 values; codes of a chunk
//   Chunks, MoreChunks               codes that the product of few rows takes at a time, of fewer than kMoreRows rows
//                                    and of more; up to kFewRows rows are few. Each of the two has
//     kSize                          how many: kSize / kLanes vectors
//     element_at(position)           which element of a chunk is at this place of its vectors
//     load_codes(values, p)          from kSize / 2 bytes
//     value<i>(values, codes)        vector i of their values
//     scales<count>(p)               the scales of a chunk's elements, where `count` blocks share it
//     kScaleFirst                    whether scaling values is faster than scaling the sums of a chunk; then
//     scaled(values, scale)          the values times a scale
//   looked_up(map, codes)            kLanes entries of a map of 256
//   rounded_once(v)                  v, out of the compiler's sight
//   Table<T>(values, scale)          the 16 values times a scale, rounded to T
//   table.decode(p, y)               32 elements of 16 bytes, in their order
//   kTileCols                        rows of x that the product of many takes at a time
// and, where its own way is faster, what product.h has for all:
//   put_in_chunks<Chunk>(from, to)   kSize elements in the order of a chunk's vectors
#pragma once

#include "cpu/isa.h"
#include "cpu/simd.h"
#include "ops/four_bit/host/four_bit.h"
#include "ops/four_bit/values.h"

#define KW_FOUR_BIT_FILE_scalar "ops/four_bit/cpu/isa/scalar.h"
#define KW_FOUR_BIT_FILE_avx2 "ops/four_bit/cpu/isa/avx2.h"
#define KW_FOUR_BIT_FILE_avx512 "ops/four_bit/cpu/isa/avx512.h"
#define KW_FOUR_BIT_FILE_neon "ops/four_bit/cpu/isa/neon.h"
#include KW_CPU_JOIN(KW_FOUR_BIT_FILE_, KW_ISA)

namespace kw::cpu {

// A tensor is cut into pieces of so many elements: a multiple of every block size, so that pieces begin with a block.
constexpr int64_t kPiece = 4096;

inline int64_t pieces(int64_t count) { return (count + kPiece - 1) / kPiece; }

namespace KW_ISA {

alignas(64) constexpr float kCodeValues[2][16] = {{KW_NF4_VALUES}, {KW_FP4_VALUES}};  // by KW_NF4, KW_FP4

constexpr int64_t kTableStep = 32;  // what Table::decode takes

inline float offset_of(const Scales4bit& s, int64_t block) {
  return s.offset[s.part_blocks == 0 ? 0 : block / s.part_blocks];
}

// Rounded after each step, as bitsandbytes does: compilers must not make one operation of the product and the sum.
inline float scale_of(const Scales4bit& s, int64_t block) {
  if (s.absmax != nullptr) return s.absmax[block];
  float product = s.map[s.codes[block]] * s.absmax2[block / kScalesABlock];
  __asm__("" : "+m"(product));
  return product + offset_of(s, block);
}

// The same of `count` blocks that have quantized scales.
inline void decode_scales(const Scales4bit& s, int64_t block, int64_t count, float* out) {
  while (count > 0) {
    const int64_t left = kScalesABlock - block % kScalesABlock, run = left < count ? left : count;
    const Vec by = all(s.absmax2[block / kScalesABlock]), offset = all(offset_of(s, block));
    int64_t i = 0;
    for (; i + kLanes <= run; i += kLanes) {
      store(out + i, add(rounded_once(mul(looked_up(s.map, s.codes + block + i), by)), offset));
    }
    for (; i < run; ++i) out[i] = scale_of(s, block + i);
    block += run;
    count -= run;
    out += run;
  }
}

// Elements of one block, of which the first may be any.
template <class T>
void decode_block(const uint8_t* packed, int64_t element, int64_t end, const Table<T>& table, T* y) {
  T some[kTableStep];
  if (element % 2 && element < end) {  // the lower half of a byte, which begins no 16 bytes
    uint8_t bytes[kTableStep / 2] = {packed[element / 2]};
    table.decode(bytes, some);
    *y++ = some[1];
    ++element;
  }
  for (; element + kTableStep <= end; element += kTableStep, y += kTableStep) table.decode(packed + element / 2, y);
  if (element < end) {
    const auto left = static_cast<size_t>(end - element);
    uint8_t bytes[kTableStep / 2] = {};
    memcpy(bytes, packed + element / 2, (left + 1) / 2);
    table.decode(bytes, some);
    memcpy(y, some, left * sizeof(T));
  }
}

// Elements from `element` to `end` of a whole quantized tensor.
template <class T>
void decode_elements(const uint8_t* packed, const Scales4bit& scales, int64_t blocksize, int quant_type,
                     int64_t element, int64_t end, T* y) {
  while (element < end) {
    const int64_t block = element / blocksize, stop = (block + 1) * blocksize;
    const int64_t last = stop < end ? stop : end;
    decode_block(packed, element, last, Table<T>(kCodeValues[quant_type], scale_of(scales, block)), y);
    y += last - element;
    element = last;
  }
}

}  // namespace KW_ISA
}  // namespace kw::cpu
