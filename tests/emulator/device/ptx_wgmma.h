// SPDX-License-Identifier: MIT
// Products by a warpgroup. Here each warp multiplies its own 16 rows, and at once: that nobody waits is not seen.
#pragma once

#include "ptx_math.h"

namespace ptx {

constexpr u32 kMostColumns = 64;

// What a lane brings. `matrix` is the descriptor of B.
struct GroupMultiplied {
  u32 a[4];
  u64 matrix;
  bool add;
  float d[kMostColumns / 2];
};

// Element k of a column of B, whose 128 bytes are swizzled.
inline u16 group_element(u64 matrix, u32 column, u32 k) {
  if (matrix >> 62 != 1) emulated_fault("wgmma: the matrix is not swizzled by 128 bytes");
  const u32 begin = static_cast<u32>(matrix & 0x3fff) << 4, pitch = static_cast<u32>(matrix >> 32 & 0x3fff) << 4;
  const u32 linear = begin + column / 8 * pitch + column % 8 * 128 + k * 2;
  const u32 address = linear ^ ((linear >> 7 & 7) << 4);
  u16 element;
  memcpy(&element, emulated_shared("wgmma", address, 2, false), 2);
  return element;
}

template <float (*kWide)(u16), u32 kColumns>
inline void multiply_group(void* const brought[32], u32) {
  auto lane_of = [&](u32 lane) { return static_cast<GroupMultiplied*>(brought[lane]); };
  auto wide = [](u16 half) { return static_cast<double>(kWide(half)); };
  for (u32 lane = 1; lane < 32; ++lane) {
    if (lane_of(lane)->matrix != lane_of(0)->matrix) emulated_fault("wgmma: lanes have different matrices");
  }
  double b[16][kColumns];
  for (u32 k = 0; k < 16; ++k) {
    for (u32 column = 0; column < kColumns; ++column) b[k][column] = wide(group_element(lane_of(0)->matrix, column, k));
  }
  for (u32 row = 0; row < 16; ++row) {
    double a[16];
    for (u32 k = 0; k < 16; ++k) {
      const u32 registers = lane_of(row % 8 * 4 + k % 8 / 2)->a[row / 8 + k / 8 * 2];
      a[k] = wide(static_cast<u16>(registers >> (k % 2 * 16)));
    }
    for (u32 column = 0; column < kColumns; ++column) {
      GroupMultiplied* mine = lane_of(row % 8 * 4 + column % 8 / 2);
      float& d = mine->d[column / 8 * 4 + row / 8 * 2 + column % 2];
      double sum = mine->add ? static_cast<double>(d) : 0.0;
      for (u32 k = 0; k < 16; ++k) sum += a[k] * b[k][column];
      d = static_cast<float>(sum);
    }
  }
}

template <float (*kWide)(u16), int kRegisters>
inline void wgmma(const char* what, const Several<float, kRegisters>& d, const Several<u32, 4>& a, u64 matrix, bool add,
                  int scale_a, int scale_b, int transposed) {
  if (scale_a != 1 || scale_b != 1 || transposed != 0) emulated_fault("%s: only plain factors are known here", what);
  GroupMultiplied mine = {{*a.at[0], *a.at[1], *a.at[2], *a.at[3]}, matrix, add, {}};
  for (int i = 0; i < kRegisters; ++i) mine.d[i] = *d.at[i];
  emulated_meet(what, 0xffffffffu, &mine, multiply_group<kWide, kRegisters * 2>);
  for (int i = 0; i < kRegisters; ++i) *d.at[i] = mine.d[i];
}

#define PTX_WGMMA(columns, type, wide)                                                                           \
  inline void wgmma_mma_async_sync_aligned_m64n##columns##k16_f32_##type##_##type(                               \
      const Several<float, columns / 2>& d, const Several<u32, 4>& a, u64 b, bool add, int scale_a, int scale_b, \
      int transposed) {                                                                                          \
    wgmma<wide>("wgmma.m64n" #columns "k16." #type, d, a, b, add, scale_a, scale_b, transposed);                 \
  }
PTX_WGMMA(16, f16, float_of_half)
PTX_WGMMA(16, bf16, float_of_bfloat)
PTX_WGMMA(8, f16, float_of_half)
PTX_WGMMA(8, bf16, float_of_bfloat)
PTX_WGMMA(32, f16, float_of_half)
PTX_WGMMA(32, bf16, float_of_bfloat)
PTX_WGMMA(64, f16, float_of_half)
PTX_WGMMA(64, bf16, float_of_bfloat)

inline void wgmma_fence_sync_aligned() { emulated_meet("wgmma.fence", 0xffffffffu, nullptr, nullptr); }
inline void wgmma_commit_group_sync_aligned() { emulated_meet("wgmma.commit_group", 0xffffffffu, nullptr, nullptr); }
inline void wgmma_wait_group_sync_aligned(u32) { emulated_meet("wgmma.wait_group", 0xffffffffu, nullptr, nullptr); }

}  // namespace ptx
