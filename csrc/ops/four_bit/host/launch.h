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

inline KwScales4bit scales_of(const Scales4bit& s, int32_t blocksize) {
  return {bytes_of(s.absmax), bytes_of(s.codes),  bytes_of(s.absmax2),
          bytes_of(s.map),    bytes_of(s.offset), log2_of(blocksize)};
}

}  // namespace kw
