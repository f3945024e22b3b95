// SPDX-License-Identifier: MIT
// A table of 16 bytes fills a register: each byte of the values is looked up by itself, and zipped with the others.
// Included by four_bit.h alone.
#pragma once

namespace kw::cpu::neon {

// The bytes of 16 floats, the lowest first.
struct Values {
  uint8x16_t plane[4];

  explicit Values(const float* values) : Values(values, 1.0f) {}
  Values(const float* values, float scale) {
    float scaled[16];
    store(scaled, mul(load(values), all(scale)));
    store(scaled + 8, mul(load(values + 8), all(scale)));
    const uint8x16x4_t apart = vld4q_u8(reinterpret_cast<const uint8_t*>(scaled));
    for (int i = 0; i < 4; ++i) plane[i] = apart.val[i];
  }

  // Of 16 codes, one a byte.
  void at(uint8x16_t codes, Vec* first, Vec* second) const {
    const uint8x16x2_t low = vzipq_u8(vqtbl1q_u8(plane[0], codes), vqtbl1q_u8(plane[1], codes));
    const uint8x16x2_t high = vzipq_u8(vqtbl1q_u8(plane[2], codes), vqtbl1q_u8(plane[3], codes));
    *first = both(low.val[0], high.val[0]);
    *second = both(low.val[1], high.val[1]);
  }

  static Vec both(uint8x16_t low, uint8x16_t high) {
    const uint16x8x2_t r = vzipq_u16(vreinterpretq_u16_u8(low), vreinterpretq_u16_u8(high));
    return {vreinterpretq_f32_u16(r.val[0]), vreinterpretq_f32_u16(r.val[1])};
  }
};

inline uint8x16_t upper_codes(uint8x16_t bytes) { return vshrq_n_u8(bytes, 4); }
inline uint8x16_t lower_codes(uint8x16_t bytes) { return vandq_u8(bytes, vdupq_n_u8(15)); }

// --- chunks of codes for the product of few rows

constexpr int kTileCols = 2;

struct Codes {
  Vec looked_up[4];
};

// The upper codes of its bytes, then the lower ones.
struct Chunks {
  static constexpr int kSize = 32;
  static constexpr bool kScaleFirst = false;

  static constexpr int element_at(int position) { return position % 16 * 2 + position / 16; }

  static Codes load_codes(const Values& values, const uint8_t* p) {
    const uint8x16_t bytes = vld1q_u8(p);
    Codes r;
    values.at(upper_codes(bytes), &r.looked_up[0], &r.looked_up[1]);
    values.at(lower_codes(bytes), &r.looked_up[2], &r.looked_up[3]);
    return r;
  }

  template <int kStep>
  static Vec value(const Values&, const Codes& codes) {
    return codes.looked_up[kStep];
  }

  template <int kCount>
  static Vec scales(const float* scales) {
    return all(scales[0]);
  }
};

using MoreChunks = Chunks;
constexpr int64_t kMoreRows = 3, kFewRows = 4;

inline Vec looked_up(const float* map, const uint8_t* codes) {
  float lanes[kLanes];
  for (int i = 0; i < kLanes; ++i) lanes[i] = map[codes[i]];
  return load(lanes);
}

// Keeps compilers from making one operation of a product and a sum.
inline Vec rounded_once(Vec v) {
  __asm__("" : "+w"(v.a), "+w"(v.b));
  return v;
}

// --- 32 codes, in their order

template <class T>
struct Table {
  uint8x16_t lower, upper;

  Table(const float* values, float scale) {
    T elements[16];
    store(elements, mul(load(values), all(scale)));
    store(elements + 8, mul(load(values + 8), all(scale)));
    const uint8x16x2_t apart = vld2q_u8(reinterpret_cast<const uint8_t*>(elements));
    lower = apart.val[0];
    upper = apart.val[1];
  }

  void decode(const uint8_t* p, T* y) const {
    const uint8x16_t bytes = vld1q_u8(p);
    const uint8x16x2_t codes = vzipq_u8(upper_codes(bytes), lower_codes(bytes));
    auto* out = reinterpret_cast<uint8_t*>(y);
    for (int i = 0; i < 2; ++i) {
      const uint8x16x2_t elements{{vqtbl1q_u8(lower, codes.val[i]), vqtbl1q_u8(upper, codes.val[i])}};
      vst2q_u8(out + 32 * i, elements);
    }
  }
};

template <>
struct Table<float> {
  Values scaled;

  Table(const float* values, float scale) : scaled(values, scale) {}

  void decode(const uint8_t* p, float* y) const {
    const uint8x16_t bytes = vld1q_u8(p);
    const uint8x16x2_t codes = vzipq_u8(upper_codes(bytes), lower_codes(bytes));
    for (int i = 0; i < 2; ++i) {
      Vec first, second;
      scaled.at(codes.val[i], &first, &second);
      store(y + 16 * i, first);
      store(y + 16 * i + kLanes, second);
    }
  }
};

}  // namespace kw::cpu::neon
