// SPDX-License-Identifier: MIT
// Results stored by non-temporal stores (simd.h: stream_two): a third less to move than where each line is fetched,
// written and then put out by what follows. Included once for each instruction set.
#pragma once

#include "cpu/simd.h"

namespace kw::cpu::KW_ISA {
namespace {

// So large that results would not stay in the caches. Where the process had the memory before, such stores are up to a
// third faster; fresh memory's faults take longer than either.
constexpr int64_t kLeastPastCaches = 8 << 20;

inline bool begins_lines(const void* result, int64_t stride, int64_t element_bytes) {
  constexpr int64_t kLine = 64;
  return reinterpret_cast<uintptr_t>(result) % kLine == 0 && stride * element_bytes % kLine == 0;
}

inline bool past_caches(const void* result, int64_t rows, int64_t stride, int64_t cols, int64_t element_bytes) {
  return kStreams && rows * cols * element_bytes >= kLeastPastCaches && begins_lines(result, stride, element_bytes);
}

template <class T>
inline void put_two(T* p, Two v, bool past) {
  if (kStreams && past) return stream_two(p, v);
  store_two(p, v);
}

}  // namespace
}  // namespace kw::cpu::KW_ISA
