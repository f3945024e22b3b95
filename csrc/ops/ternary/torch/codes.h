// SPDX-License-Identifier: MIT
// The weight of a call of a ternary operator: its codes, and one scale or one a row.
#pragma once

#include "core/sizes.h"
#include "core/tensor.h"
#include "ops/ternary/geometry.h"
#include "torch/operator.h"

namespace kw::torch {

constexpr int64_t kDeepestTernary = int64_t{1} << 24;

// The two sizes of the codes of a weight; false where it has no such weight.
inline bool sizes_of_codes(int64_t n, int64_t k, int64_t* sizes) {
  if (n < 0 || n > kMaxElements || k < 0 || k > kDeepestTernary) return false;
  sizes[0] = ratio_up(n, KW_TERNARY_ROWS);
  sizes[1] = ratio_up(k, KW_TERNARY_DEPTH) * KW_TERNARY_BLOCK;
  return true;
}

// Codes without gaps on 16 bytes, and a scale or nullptr. kElsewhere for what is wrong, or must be copied first.
inline kw_status check_codes(const char* name, const kw_tensor& packed, const kw_tensor* scale, const kw_tensor& like,
                             int64_t n, int64_t k, int64_t* scales) {
  int64_t sizes[2] = {}, bytes = 0;
  if (!sizes_of_codes(n, k, sizes) || __builtin_mul_overflow(sizes[0], sizes[1], &bytes)) return kElsewhere;
  KW_TRY(check_flat(name, "packed", packed, like, KW_UINT8, bytes, true));
  if (reinterpret_cast<uintptr_t>(packed.data) % 16 != 0) return kElsewhere;
  *scales = 1;
  if (scale == nullptr) return KW_OK;
  KW_TRY(count_of(name, "scale", *scale, true, scales));
  if (*scales != 1 && *scales != n) return kElsewhere;
  return check_flat(name, "scale", *scale, like, KW_FLOAT32, *scales, true);
}

}  // namespace kw::torch
