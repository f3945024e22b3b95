// SPDX-License-Identifier: MIT
// What the launchers of the 4-bit operators share: the values of codes and the scales of blocks as kernels get them.
#pragma once

#include "core/error.h"
#include "core/launch.h"
#include "core/sizes.h"
#include "ops/four_bit/host/four_bit.h"
#include "ops/four_bit/params.h"
#include "ops/four_bit/values.h"

namespace kw {

constexpr int64_t kVectorBytes = 16;
constexpr int64_t kMaxBlocks = 0x7fffffff;                                    // of a launch
constexpr float kCodeValues4bit[2][16] = {{KW_NF4_VALUES}, {KW_FP4_VALUES}};  // by KW_NF4, KW_FP4

inline int log2_of(int64_t power) { return __builtin_ctzll(static_cast<unsigned long long>(power)); }

inline bool aligned_to(const void* data, int64_t bytes) { return reinterpret_cast<uintptr_t>(data) % bytes == 0; }

template <class T>
const char* bytes_of(const T* data) {
  return static_cast<const char*>(static_cast<const void*>(data));
}

// Division by multiplication, exact for numbers below 2^31 (Granlund and Montgomery): a part has 256 blocks or more.
inline KwScales4bit scales_of(const Scales4bit& s, int32_t blocksize) {
  KwScales4bit to{};
  to.absmax = bytes_of(s.absmax), to.codes = bytes_of(s.codes), to.absmax2 = bytes_of(s.absmax2);
  to.map = bytes_of(s.map), to.offset = bytes_of(s.offset);
  to.block_log2 = log2_of(blocksize);
  to.parts = 1;
  if (s.part_blocks == 0) return to;
  int log2 = 0;
  while (int64_t{1} << log2 < s.part_blocks) ++log2;
  to.parts = static_cast<unsigned>(s.parts);
  to.part_magic = static_cast<unsigned>(((int64_t{1} << (31 + log2)) + s.part_blocks - 1) / s.part_blocks);
  to.part_shift = log2 - 1;
  return to;
}

}  // namespace kw
