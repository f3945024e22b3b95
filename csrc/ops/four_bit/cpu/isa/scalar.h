// SPDX-License-Identifier: MIT
// Plain C++ for any CPU. Included by four_bit.h alone.
#pragma once

namespace kw::cpu::scalar {

// --- chunks of codes for the product of few rows

constexpr int kTileCols = 2;

struct Values {
  const float* values;
  explicit Values(const float* v) : values(v) {}
};

using Codes = const uint8_t*;

// In their order.
struct Chunks {
  static constexpr int kSize = 32;
  static constexpr bool kScaleFirst = false;

  static constexpr int element_at(int position) { return position; }

  static Codes load_codes(const Values&, const uint8_t* p) { return p; }

  template <int kStep>
  static Vec value(const Values& v, Codes codes) {
    Vec r;
    for (int i = 0; i < kLanes; i += 2) {
      const uint8_t byte = codes[kStep * kLanes / 2 + i / 2];
      r.lane[i] = v.values[byte >> 4];
      r.lane[i + 1] = v.values[byte & 15];
    }
    return r;
  }

  template <int kCount>
  static Vec scales(const float* scales) {
    return all(scales[0]);
  }
};

using MoreChunks = Chunks;
constexpr int64_t kMoreRows = 3, kFewRows = 4;

inline Vec looked_up(const float* map, const uint8_t* codes) {
  Vec r;
  for (int i = 0; i < kLanes; ++i) r.lane[i] = map[codes[i]];
  return r;
}

// Keeps compilers from making one operation of a product and a sum.
inline Vec rounded_once(Vec v) {
  __asm__("" : "+m"(v));
  return v;
}

// --- 32 codes, in their order

template <class T>
struct Table {
  T elements[16];

  Table(const float* values, float scale) {
    for (int i = 0; i < 16; i += kLanes) store(elements + i, mul(load(values + i), all(scale)));
  }

  void decode(const uint8_t* p, T* y) const {
    for (int i = 0; i < 16; ++i) {
      y[2 * i] = elements[p[i] >> 4];
      y[2 * i + 1] = elements[p[i] & 15];
    }
  }
};

}  // namespace kw::cpu::scalar
