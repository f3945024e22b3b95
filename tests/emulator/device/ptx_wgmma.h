// SPDX-License-Identifier: MIT
// Products by a warpgroup. What they do, and when, is in runtime/products.cpp: here they get their operands together.
#pragma once

#include "emulated.h"

namespace ptx {

using namespace emulated;

// How the matrices lie: factors of both, which must be 1, and whether they are transposed.
inline void group_flags(EmulatedProduct*, const char*) {}
inline void group_flags(EmulatedProduct* of, const char* what, int left, int right, int right_transposed = 0) {
  if (left != 1 || right != 1) emulated_fault("%s: only factors of 1 are known here", what);
  of->right_transposed = right_transposed != 0;
}
inline void group_flags(EmulatedProduct* of, const char* what, int left, int right, int left_transposed,
                        int right_transposed) {
  group_flags(of, what, left, right, right_transposed);
  of->left_transposed = left_transposed != 0;
}

template <class T, int kRegisters, class... Flags>
inline void wgmma(const char* what, unsigned type, const Several<T, kRegisters>& d, EmulatedProduct of, u64 right,
                  bool add, Flags... flags) {
  static_assert(sizeof(T) == 4, "sums are float32 or int32");
  void* registers[kRegisters];
  for (int i = 0; i < kRegisters; ++i) registers[i] = d.at[i];
  of.type = type, of.columns = kRegisters * 2, of.right = right, of.add = add, of.sums = registers;
  group_flags(&of, what, flags...);
  emulated_wgmma(what, &of);
}

#define PTX_WGMMA_OF(columns, depth, sum, type, T)                                                          \
  template <class... Flags>                                                                                 \
  inline void wgmma_mma_async_sync_aligned_m64n##columns##k##depth##_##sum##_##type##_##type(               \
      const Several<T, columns / 2>& d, u64 left, u64 right, bool add, Flags... flags) {                    \
    EmulatedProduct of = {};                                                                                \
    of.left_shared = true, of.left_matrix = left;                                                           \
    wgmma("wgmma.m64n" #columns "k" #depth "." #type, emulated_##type, d, of, right, add, flags...);        \
  }                                                                                                         \
  template <class... Flags>                                                                                 \
  inline void wgmma_mma_async_sync_aligned_m64n##columns##k##depth##_##sum##_##type##_##type(               \
      const Several<T, columns / 2>& d, const Several<u32, 4>& left, u64 right, bool add, Flags... flags) { \
    EmulatedProduct of = {};                                                                                \
    for (int i = 0; i < 4; ++i) of.left[i] = *left.at[i];                                                   \
    wgmma("wgmma.m64n" #columns "k" #depth "." #type, emulated_##type, d, of, right, add, flags...);        \
  }
#define PTX_WGMMA(columns)                    \
  PTX_WGMMA_OF(columns, 16, f32, f16, float)  \
  PTX_WGMMA_OF(columns, 16, f32, bf16, float) \
  PTX_WGMMA_OF(columns, 32, f32, e4m3, float) \
  PTX_WGMMA_OF(columns, 32, s32, s8, int)
PTX_WGMMA(8)
PTX_WGMMA(16)
PTX_WGMMA(24)
PTX_WGMMA(32)
PTX_WGMMA(48)
PTX_WGMMA(64)
PTX_WGMMA(80)
PTX_WGMMA(96)
PTX_WGMMA(112)
PTX_WGMMA(128)
PTX_WGMMA(144)
PTX_WGMMA(160)
PTX_WGMMA(176)
PTX_WGMMA(192)
PTX_WGMMA(208)
PTX_WGMMA(224)
PTX_WGMMA(240)
PTX_WGMMA(256)

inline void wgmma_fence_sync_aligned() { emulated_wgmma_fence(); }
inline void wgmma_commit_group_sync_aligned() { emulated_wgmma_commit(); }
inline void wgmma_wait_group_sync_aligned(u32 left) { emulated_wgmma_wait(left); }

inline void setmaxnreg_inc_sync_aligned_u32(u32 count) { emulated_registers(count, true); }
inline void setmaxnreg_dec_sync_aligned_u32(u32 count) { emulated_registers(count, false); }

}  // namespace ptx
