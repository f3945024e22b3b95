// SPDX-License-Identifier: MIT
// Products of matrices of bytes that a warp's lanes hold together: lane / 4 and lane % 4 say which row or column, and
// four bytes of k share a register.
#pragma once

#include "ptx_mma.h"

namespace ptx {

// What a lane brings to D = A * B + C, of 16 x 8 x 32.
struct MultipliedBytes {
  u32 a[4], b[2];
  int c[4], d[4];
};

template <class Left>
inline void multiply_bytes(void* const brought[32], u32) {
  auto lane_of = [&](u32 lane) { return static_cast<MultipliedBytes*>(brought[lane]); };
  auto byte = [](u32 word, u32 k) { return static_cast<unsigned char>(word >> (k % 4 * 8)); };
  for (u32 row = 0; row < 16; ++row) {
    for (u32 column = 0; column < 8; ++column) {
      MultipliedBytes* mine = lane_of(row % 8 * 4 + column / 2);
      const u32 which = row / 8 * 2 + column % 2;
      unsigned sum = static_cast<unsigned>(mine->c[which]);
      for (u32 k = 0; k < 32; ++k) {
        const int a = static_cast<Left>(byte(lane_of(row % 8 * 4 + k % 16 / 4)->a[row / 8 + k / 16 * 2], k));
        const int b = static_cast<signed char>(byte(lane_of(column * 4 + k % 16 / 4)->b[k / 16], k));
        sum += static_cast<unsigned>(a * b);
      }
      mine->d[which] = static_cast<int>(sum);
    }
  }
}

template <class Left>
inline void mma_bytes(const char* what, const Several<u32, 4>& d, const Several<u32, 4>& a, const Several<u32, 2>& b,
                      const Several<u32, 4>& c) {
  MultipliedBytes mine;
  for (int i = 0; i < 4; ++i) mine.a[i] = *a.at[i], mine.c[i] = static_cast<int>(*c.at[i]);
  for (int i = 0; i < 2; ++i) mine.b[i] = *b.at[i];
  emulated_meet(what, 0xffffffffu, &mine, multiply_bytes<Left>);
  for (int i = 0; i < 4; ++i) *d.at[i] = static_cast<u32>(mine.d[i]);
}

inline void mma_sync_aligned_m16n8k32_row_col_s32_s8_s8_s32(const Several<u32, 4>& d, const Several<u32, 4>& a,
                                                            const Several<u32, 2>& b, const Several<u32, 4>& c) {
  mma_bytes<signed char>("mma.sync.m16n8k32.s8", d, a, b, c);
}
inline void mma_sync_aligned_m16n8k32_row_col_s32_u8_s8_s32(const Several<u32, 4>& d, const Several<u32, 4>& a,
                                                            const Several<u32, 2>& b, const Several<u32, 4>& c) {
  mma_bytes<unsigned char>("mma.sync.m16n8k32.u8.s8", d, a, b, c);
}

}  // namespace ptx
