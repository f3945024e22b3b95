// SPDX-License-Identifier: MIT
// Matrices that a warp's lanes hold together. Where an element lies is as the PTX manual has it: lane / 4 and lane % 4
// say which row or column, and pairs of adjacent elements share a register, the first one in its lower half.
#pragma once

#include "ptx_math.h"

namespace ptx {

// What a lane brings to D = A * B + C, of 16 x 8 x 16.
struct Multiplied {
  u32 a[4], b[2];
  float c[4], d[4];
};

template <float (*kWide)(u16)>
inline void multiply(void* const brought[32], u32) {
  auto lane_of = [&](u32 lane) { return static_cast<Multiplied*>(brought[lane]); };
  auto half = [](const u32* registers, u32 which, u32 column) {
    return static_cast<double>(kWide(static_cast<u16>(registers[which] >> (column % 2 * 16))));
  };
  double a[16][16], b[16][8];
  for (u32 row = 0; row < 16; ++row) {
    for (u32 k = 0; k < 16; ++k) a[row][k] = half(lane_of(row % 8 * 4 + k % 8 / 2)->a, row / 8 + k / 8 * 2, k);
  }
  for (u32 k = 0; k < 16; ++k) {
    for (u32 column = 0; column < 8; ++column) b[k][column] = half(lane_of(column * 4 + k % 8 / 2)->b, k / 8, k);
  }
  for (u32 row = 0; row < 16; ++row) {
    for (u32 column = 0; column < 8; ++column) {
      Multiplied* mine = lane_of(row % 8 * 4 + column / 2);
      const u32 which = row / 8 * 2 + column % 2;
      double sum = static_cast<double>(mine->c[which]);
      for (u32 k = 0; k < 16; ++k) sum += a[row][k] * b[k][column];
      mine->d[which] = static_cast<float>(sum);
    }
  }
}

template <float (*kWide)(u16)>
inline void mma(const char* what, const Several<float, 4>& d, const Several<u32, 4>& a, const Several<u32, 2>& b,
                const Several<float, 4>& c) {
  Multiplied mine;
  for (int i = 0; i < 4; ++i) mine.a[i] = *a.at[i], mine.c[i] = *c.at[i];
  for (int i = 0; i < 2; ++i) mine.b[i] = *b.at[i];
  emulated_meet(what, 0xffffffffu, &mine, multiply<kWide>);
  for (int i = 0; i < 4; ++i) *d.at[i] = mine.d[i];
}

inline void mma_sync_aligned_m16n8k16_row_col_f32_f16_f16_f32(const Several<float, 4>& d, const Several<u32, 4>& a,
                                                              const Several<u32, 2>& b, const Several<float, 4>& c) {
  mma<float_of_half>("mma.sync.m16n8k16.f16", d, a, b, c);
}
inline void mma_sync_aligned_m16n8k16_row_col_f32_bf16_bf16_f32(const Several<float, 4>& d, const Several<u32, 4>& a,
                                                                const Several<u32, 2>& b, const Several<float, 4>& c) {
  mma<float_of_bfloat>("mma.sync.m16n8k16.bf16", d, a, b, c);
}

// The same of bytes, of 16 x 8 x 32; sums are exact, and lose what does not fit into 32 bits.
struct MultipliedBytes {
  u32 a[4], b[2], c[4], d[4];
};

template <class Left>
inline void multiply_bytes(void* const brought[32], u32) {
  auto lane_of = [&](u32 lane) { return static_cast<MultipliedBytes*>(brought[lane]); };
  auto byte = [](u32 word, u32 k) { return static_cast<unsigned char>(word >> (k % 4 * 8)); };
  for (u32 row = 0; row < 16; ++row) {
    for (u32 column = 0; column < 8; ++column) {
      MultipliedBytes* mine = lane_of(row % 8 * 4 + column / 2);
      const u32 which = row / 8 * 2 + column % 2;
      u32 sum = mine->c[which];
      for (u32 k = 0; k < 32; ++k) {
        const int left = static_cast<Left>(byte(lane_of(row % 8 * 4 + k % 16 / 4)->a[row / 8 + k / 16 * 2], k));
        const int right = static_cast<signed char>(byte(lane_of(column * 4 + k % 16 / 4)->b[k / 16], k));
        sum += static_cast<u32>(left * right);
      }
      mine->d[which] = sum;
    }
  }
}

template <class Left>
inline void mma_bytes(const char* what, const Several<u32, 4>& d, const Several<u32, 4>& a, const Several<u32, 2>& b,
                      const Several<u32, 4>& c) {
  MultipliedBytes mine = {};
  for (int i = 0; i < 4; ++i) mine.a[i] = *a.at[i], mine.c[i] = *c.at[i];
  for (int i = 0; i < 2; ++i) mine.b[i] = *b.at[i];
  emulated_meet(what, 0xffffffffu, &mine, multiply_bytes<Left>);
  for (int i = 0; i < 4; ++i) *d.at[i] = mine.d[i];
}

// The same of e4m3.
inline void multiply_e4m3(void* const brought[32], u32) {
  auto lane_of = [&](u32 lane) { return static_cast<MultipliedBytes*>(brought[lane]); };
  double a[16][32], b[8][32];
  for (u32 k = 0; k < 32; ++k) {
    const u32 lane = k % 16 / 4, shift = k % 4 * 8;
    for (u32 row = 0; row < 16; ++row) {
      a[row][k] = number_of_e4m3(lane_of(row % 8 * 4 + lane)->a[row / 8 + k / 16 * 2] >> shift & 0xff);
    }
    for (u32 column = 0; column < 8; ++column) {
      b[column][k] = number_of_e4m3(lane_of(column * 4 + lane)->b[k / 16] >> shift & 0xff);
    }
  }
  for (u32 row = 0; row < 16; ++row) {
    for (u32 column = 0; column < 8; ++column) {
      MultipliedBytes* mine = lane_of(row % 8 * 4 + column / 2);
      const u32 which = row / 8 * 2 + column % 2;
      const double before = static_cast<double>(bits<float>(mine->c[which]));
      mine->d[which] = bits<u32>(static_cast<float>(short_sum(a[row], b[column], 32, before)));
    }
  }
}

inline void mma_sync_aligned_m16n8k32_row_col_f32_e4m3_e4m3_f32(const Several<float, 4>& d, const Several<u32, 4>& a,
                                                                const Several<u32, 2>& b, const Several<float, 4>& c) {
  MultipliedBytes mine = {};
  for (int i = 0; i < 4; ++i) mine.a[i] = *a.at[i], mine.c[i] = bits<u32>(*c.at[i]);
  for (int i = 0; i < 2; ++i) mine.b[i] = *b.at[i];
  emulated_meet("mma.sync.m16n8k32.e4m3", 0xffffffffu, &mine, multiply_e4m3);
  for (int i = 0; i < 4; ++i) *d.at[i] = bits<float>(mine.d[i]);
}

inline void mma_sync_aligned_m16n8k32_row_col_s32_s8_s8_s32(const Several<u32, 4>& d, const Several<u32, 4>& a,
                                                            const Several<u32, 2>& b, const Several<u32, 4>& c) {
  mma_bytes<signed char>("mma.sync.m16n8k32.s8", d, a, b, c);
}
inline void mma_sync_aligned_m16n8k32_row_col_s32_u8_s8_s32(const Several<u32, 4>& d, const Several<u32, 4>& a,
                                                            const Several<u32, 2>& b, const Several<u32, 4>& c) {
  mma_bytes<unsigned char>("mma.sync.m16n8k32.u8", d, a, b, c);
}

// Matrices of 8 x 8 elements of 16 bits; lanes 8 i to 8 i + 7 say where the rows of matrix i lie.
struct Rows {
  u32 address, matrix[4];
};

template <int kCount, bool kTransposed>
inline void load_matrices(void* const brought[32], u32) {
  u16 element[kCount * 8][8];
  for (u32 row = 0; row < kCount * 8; ++row) {
    const u32 address = static_cast<const Rows*>(brought[row])->address;
    memcpy(element[row], emulated_shared("ldmatrix", address, 16, false), 16);
  }
  for (u32 lane = 0; lane < 32; ++lane) {
    const u32 row = lane / 4, column = lane % 4 * 2;
    for (u32 i = 0; i < kCount; ++i) {
      const auto& m = &element[i * 8];
      const u32 low = kTransposed ? m[column][row] : m[row][column];
      const u32 high = kTransposed ? m[column + 1][row] : m[row][column + 1];
      static_cast<Rows*>(brought[lane])->matrix[i] = high << 16 | low;
    }
  }
}

template <bool kTransposed, int kCount>
inline void ldmatrix(const Several<u32, kCount>& to, u32 address) {
  Rows mine = {address, {}};
  emulated_meet("ldmatrix", 0xffffffffu, &mine, load_matrices<kCount, kTransposed>);
  for (int i = 0; i < kCount; ++i) *to.at[i] = mine.matrix[i];
}

// The way back.
template <int kCount, bool kTransposed>
inline void store_matrices(void* const brought[32], u32) {
  u16 element[kCount * 8][8];
  for (u32 lane = 0; lane < 32; ++lane) {
    const u32 row = lane / 4, column = lane % 4 * 2;
    for (u32 i = 0; i < kCount; ++i) {
      auto* m = &element[i * 8];
      const u32 pair = static_cast<const Rows*>(brought[lane])->matrix[i];
      (kTransposed ? m[column][row] : m[row][column]) = static_cast<u16>(pair);
      (kTransposed ? m[column + 1][row] : m[row][column + 1]) = static_cast<u16>(pair >> 16);
    }
  }
  for (u32 row = 0; row < kCount * 8; ++row) {
    const u32 address = static_cast<const Rows*>(brought[row])->address;
    memcpy(emulated_shared("stmatrix", address, 16, true), element[row], 16);
  }
}

template <bool kTransposed, int kCount>
inline void stmatrix(u32 address, const Several<u32, kCount>& from) {
  Rows mine = {address, {}};
  for (int i = 0; i < kCount; ++i) mine.matrix[i] = *from.at[i];
  emulated_meet("stmatrix", 0xffffffffu, &mine, store_matrices<kCount, kTransposed>);
}

#define PTX_STMATRIX(count)                                                                                     \
  inline void stmatrix_sync_aligned_m8n8_x##count##_shared_b16(u32 to, const Several<u32, count>& from) {       \
    stmatrix<false>(to, from);                                                                                  \
  }                                                                                                             \
  inline void stmatrix_sync_aligned_m8n8_x##count##_trans_shared_b16(u32 to, const Several<u32, count>& from) { \
    stmatrix<true>(to, from);                                                                                   \
  }
PTX_STMATRIX(1)
PTX_STMATRIX(2)
PTX_STMATRIX(4)

#define PTX_LDMATRIX(count)                                                                                     \
  inline void ldmatrix_sync_aligned_m8n8_x##count##_shared_b16(const Several<u32, count>& to, u32 from) {       \
    ldmatrix<false>(to, from);                                                                                  \
  }                                                                                                             \
  inline void ldmatrix_sync_aligned_m8n8_x##count##_trans_shared_b16(const Several<u32, count>& to, u32 from) { \
    ldmatrix<true>(to, from);                                                                                   \
  }
PTX_LDMATRIX(1)
PTX_LDMATRIX(2)
PTX_LDMATRIX(4)

}  // namespace ptx
