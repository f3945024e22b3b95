// SPDX-License-Identifier: MIT
// How the rows of a call of a norm's derivatives lie in memory.
#pragma once

#include <stdint.h>

#include "ops/norm/host/norm.h"

namespace kw::norm_backward_plan {

constexpr int kVector = 16;  // bytes
constexpr int kSector = 32;  // bytes of memory that are moved as one

inline bool aligned(const NormBackward& a) {
  const uintptr_t size = size_of(a.dtype);
  const void* data[] = {a.dx, a.dy, a.h, a.dsum};
  const int64_t stride[] = {a.dx_stride, a.dy_stride, a.h_stride, a.dsum_stride};
  uintptr_t off = static_cast<uintptr_t>(a.cols) * size;
  for (int i = 0; i < 4; ++i) {
    if (data[i] == nullptr) continue;
    off |= reinterpret_cast<uintptr_t>(data[i]);
    if (a.rows > 1) off |= static_cast<uintptr_t>(stride[i]) * size;
  }
  return off % kVector == 0;
}

// Shape's.
inline bool dense(const NormBackward& a) {
  const void* data[] = {a.dx, a.dy, a.h, a.dsum};
  const int64_t stride[] = {a.dx_stride, a.dy_stride, a.h_stride, a.dsum_stride};
  for (int i = 0; i < 4; ++i) {
    if (data[i] == nullptr) continue;
    if (reinterpret_cast<uintptr_t>(data[i]) % kVector != 0 || (a.rows > 1 && stride[i] != a.cols)) return false;
  }
  return a.dtype == KW_BFLOAT16;
}

// Shape's. Rows of all tensors have to begin alike within so many bytes. Only bfloat16 has such a kernel.
inline int period_of(const NormBackward& a, int bytes) {
  const void* data[] = {a.dx, a.dy, a.h, a.dsum};
  const int64_t stride[] = {a.dx_stride, a.dy_stride, a.h_stride, a.dsum_stride};
  const int64_t size = size_of(a.dtype);
  if (a.dtype != KW_BFLOAT16) return 0;
  for (int i = 1; i < 4; ++i) {
    if (data[i] == nullptr) continue;
    const uintptr_t apart = reinterpret_cast<uintptr_t>(data[i]) - reinterpret_cast<uintptr_t>(data[0]);
    if (apart % bytes != 0 || (a.rows > 1 && (stride[i] - stride[0]) * size % bytes != 0)) return 0;
  }
  int period = 1;
  while (a.rows > 1 && stride[0] * size * period % bytes != 0) period *= 2;
  return period;
}

}  // namespace kw::norm_backward_plan
