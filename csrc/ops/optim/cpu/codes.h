// SPDX-License-Identifier: MIT
// A map of 256 values and the table of its codes, as the CPU paths have it: made once a call, on the caller's stack.
#pragma once

#include <string.h>

#include "cpu/isa.h"
#include "cpu/simd.h"
#include "ops/optim/code_table.h"

namespace kw::cpu {

struct CodeTable {
  const float* map;
  CodeShape shape;
  bool filled;
  unsigned bound[256];
  unsigned entry[kCodeBuckets];
};

namespace KW_ISA {
namespace {

inline unsigned bits_of_value(float value) {
  unsigned bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

// To fill in the entries takes as long as to search the bounds for some thousand values.
constexpr int64_t kLeastForTable = 1 << 14;

inline void fill_table(const float* map, int64_t count, CodeTable* table) {
  table->map = map;
  table->shape = code_shape(map[0] < 0.0f);
  table->filled = count >= kLeastForTable;
  for (unsigned i = 0; i < 255; ++i) {
    table->bound[i] = code_bound(bits_of_value((map[i] + map[i + 1]) * 0.5f), i, map[i] == map[i + 1]);
  }
  table->bound[255] = 0x7f800000u;
  const unsigned entries = table->shape.both ? 2 * table->shape.size : table->shape.size;
  for (unsigned i = 0; table->filled && i < entries; ++i) table->entry[i] = code_entry(table->shape, table->bound, i);
}

inline uint8_t code_of(const CodeTable& table, float scaled) {
  unsigned bits = bits_of_value(scaled);
  if ((bits & 0x7fffffffu) < 0x00800000u) bits = 0;  // a GPU's products are never subnormal
  unsigned entry = kCodeSearch;
  if (table.filled) entry = table.entry[code_bucket(table.shape, bits)];
  if (!(entry & kCodeSearch)) return static_cast<uint8_t>(code_in(table.shape, entry, bits));
  return static_cast<uint8_t>((bits & 0x7fffffffu) > 0x7f800000u ? 0 : code_searched(table.bound, bits));
}

// The largest size among the elements, and 0 for a subnormal one, as on a GPU; NaN if there is one: as whole numbers
// those exceed all others.
inline float scale_of(const float* x, int64_t count) {
  uint32_t most = 0;
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t size = bits_of_value(x[i]) & 0x7fffffffu;
    most = size > most ? size : most;
  }
  if (most < 0x00800000u) most = 0;
  float result;
  memcpy(&result, &most, sizeof result);
  return result;
}

template <class T>
inline void widen(const T* x, float* wide, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(wide + i, load(x + i));
  if (i < count) store_part(wide + i, load_part(x + i, count - i), count - i);
}

template <class T>
inline void narrow(const float* wide, T* y, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(y + i, load(wide + i));
  if (i < count) store_part(y + i, load_part(wide + i, count - i), count - i);
}

// One block's scale, and its codes.
inline float quantize_block(const CodeTable& table, const float* x, int64_t count, uint8_t* codes) {
  const float scale = scale_of(x, count);
  const float by = scale == 0.0f ? __builtin_nanf("") : 1.0f / scale;  // nothing can be scaled: codes are 0
  for (int64_t i = 0; i < count; ++i) codes[i] = code_of(table, x[i] * by);
  return scale;
}

inline void dequantize_block(const float* map, const uint8_t* codes, float scale, int64_t count, float* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = map[codes[i]] * scale;
}

}  // namespace
}  // namespace KW_ISA
}  // namespace kw::cpu
