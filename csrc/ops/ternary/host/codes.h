// SPDX-License-Identifier: MIT
// What quantize_ternary and dequantize_ternary have in common: checks, and what their kernels are given.
#pragma once

#include "core/launch.h"
#include "ops/ternary/host/ternary.h"
#include "ops/ternary/params.h"

namespace kw::ternary {

constexpr uint32_t kThreads = 256;

inline kw_status check(const char* name, const char* wide, bool written, int32_t device, const TernaryCodes& a) {
  KW_TRY(check_device(name, device));
  KW_TRY(check_float_type(name, a.dtype));
  KW_TRY(check_weight(name, a.n, a.k));
  const bool empty = a.n == 0 || a.k == 0;
  KW_TRY(check_codes(name, empty ? reinterpret_cast<const uint8_t*>(16) : a.packed, nullptr, a.scales, a.n));
  if (a.scales > 0) KW_TRY(check_pointer(name, "scale", a.scale, 4));
  if (empty) return KW_OK;
  KW_TRY(check_pointer(name, wide, a.wide, size_of(a.dtype)));
  return written ? check_apart(name, wide, a.stride, a.n, a.k) : KW_OK;
}

inline KwTernaryCodesParams params_of(const TernaryCodes& a) {
  const int64_t size = size_of(a.dtype);
  KwTernaryCodesParams p{};
  p.packed = reinterpret_cast<char*>(a.packed);
  p.scale = reinterpret_cast<char*>(a.scale);
  p.wide = static_cast<char*>(a.wide);
  p.pitch = a.stride * size;
  p.n = static_cast<unsigned>(a.n);
  p.k = static_cast<unsigned>(a.k);
  p.groups = static_cast<unsigned>(groups_of(a.n));
  p.blocks = static_cast<unsigned>(blocks_of(a.k));
  p.scales = a.scales != 1;
  p.vectors =
      reinterpret_cast<uintptr_t>(a.wide) % static_cast<uintptr_t>(4 * size) == 0 && (a.n == 1 || a.stride % 4 == 0);
  return p;
}

inline uint32_t grid_of(const TernaryCodes& a) {
  return static_cast<uint32_t>(ratio_up(groups_of(a.n) * blocks_of(a.k) * 32, kThreads));
}

}  // namespace kw::ternary
