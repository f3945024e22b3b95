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

// The entries of one sign, from 0 on: the code of a bucket's smallest size goes one way, so that none is searched.
inline void fill_entries(CodeTable* table, bool minus) {
  const CodeShape& shape = table->shape;
  unsigned code = code_searched(table->bound, 0);
  for (unsigned bucket = 0; bucket < shape.size; ++bucket) {
    const unsigned from = code_order(code_edge(shape, bucket) | (minus ? 0x80000000u : 0));
    while (code < 255 && from > code_order(table->bound[code])) ++code;
    while (code > 0 && from <= code_order(table->bound[code - 1])) --code;
    const unsigned number = minus ? shape.size + bucket : bucket;
    table->entry[number] = code_entry(shape, table->bound, number, code);
  }
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
  if (!table->filled) return;
  fill_entries(table, false);
  if (table->shape.both) fill_entries(table, true);
}

inline unsigned bits_of_scaled(float scaled) {
  const unsigned bits = bits_of_value(scaled);
  return (bits & 0x7fffffffu) < 0x00800000u ? 0 : bits;  // a GPU's products are never subnormal
}

inline uint8_t searched_code(const CodeTable& table, unsigned bits) {
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

}  // namespace
}  // namespace KW_ISA
}  // namespace kw::cpu

#define KW_OPTIM_FILE_scalar "ops/optim/cpu/isa/any.h"
#define KW_OPTIM_FILE_avx2 "ops/optim/cpu/isa/any.h"
#define KW_OPTIM_FILE_avx512 "ops/optim/cpu/isa/avx512.h"
#define KW_OPTIM_FILE_neon "ops/optim/cpu/isa/any.h"
#include KW_CPU_JOIN(KW_OPTIM_FILE_, KW_ISA)

namespace kw::cpu::KW_ISA {
namespace {

constexpr int64_t kCodesAtOnce = 256;

// In three loops, of which the first and the last are ones of vectors; the entries are read one by one in between,
// since an instruction that gathers them takes longer.
inline void look_up(const CodeTable& table, const float* x, float by, int64_t count, uint8_t* codes) {
  const CodeShape shape = table.shape;
  unsigned bits[kCodesAtOnce], entry[kCodesAtOnce], searched = 0;
  for (int64_t i = 0; i < count; ++i) {
    bits[i] = bits_of_scaled(x[i] * by);
    entry[i] = code_bucket(shape, bits[i]);
  }
#ifdef __clang__
#pragma clang loop vectorize(disable)
#endif
  for (int64_t i = 0; i < count; ++i) entry[i] = table.entry[entry[i]];
  for (int64_t i = 0; i < count; ++i) {
    codes[i] = static_cast<uint8_t>(code_in(shape, entry[i], bits[i]));
    searched |= entry[i];
  }
  if (!(searched & kCodeSearch)) return;
  for (int64_t i = 0; i < count; ++i) {
    if (entry[i] & kCodeSearch) codes[i] = searched_code(table, bits[i]);
  }
}

// One block's scale, and its codes. Not inlined: each of its calls is for a block, and would be another copy.
[[gnu::noinline]] inline float quantize_block(const CodeTable& table, const float* x, int64_t count, uint8_t* codes) {
  const float scale = scale_of(x, count);
  const float by = scale == 0.0f ? __builtin_nanf("") : 1.0f / scale;  // nothing can be scaled: codes are 0
  for (int64_t i = 0; table.filled && i < count; i += kCodesAtOnce) {
    look_up(table, x + i, by, count - i < kCodesAtOnce ? count - i : kCodesAtOnce, codes + i);
  }
  for (int64_t i = 0; !table.filled && i < count; ++i) codes[i] = searched_code(table, bits_of_scaled(x[i] * by));
  return scale;
}

[[gnu::noinline]] inline void dequantize_block(const float* map, const uint8_t* codes, float scale, int64_t count,
                                               float* y) {
  const MapValues values{map};
  int64_t i = 0;
  for (; i + kMapLanes <= count; i += kMapLanes) values.at(codes + i, scale, y + i);
  for (; i < count; ++i) y[i] = map[codes[i]] * scale;
}

}  // namespace
}  // namespace kw::cpu::KW_ISA
