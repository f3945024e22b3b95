// SPDX-License-Identifier: MIT
// What the entry points of the 4-bit operators refuse. A message names the C function and the argument.
#pragma once

#include "core/checks.h"
#include "ops/four_bit/host/four_bit.h"

namespace kw::four_bit_checks {

constexpr unsigned kWorkspaceAlignment = 16;

inline kw_status check_blocksize(const char* name, int32_t blocksize) {
  if (blocksize < 32 || blocksize > 4096 || (blocksize & (blocksize - 1)) != 0)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: blocksize is %d; it must be a power of two from 32 to 4096", name,
                blocksize);
  return KW_OK;
}

inline kw_status check_quant_type(const char* name, int32_t quant_type) {
  if (quant_type != KW_NF4 && quant_type != KW_FP4)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: quant_type is %d; it must be KW_NF4 (0) or KW_FP4 (1)", name,
                quant_type);
  return KW_OK;
}

// absmax alone, or the four others without it.
inline kw_status check_scales(const char* name, const Scales4bit& s) {
  if (s.absmax != nullptr) {
    const char* other = s.codes ? "codes" : s.absmax2 ? "absmax2" : s.map ? "map" : s.offset ? "offset" : nullptr;
    if (other != nullptr)
      return fail(KW_ERROR_INVALID_ARGUMENT,
                  "%s: absmax and %s are both given; the scales are either floats (absmax alone) or quantized (codes, "
                  "absmax2, map and offset, with absmax NULL)",
                  name, other);
    return check_pointer(name, "absmax", s.absmax, 4);
  }
  if (!s.codes && !s.absmax2 && !s.map && !s.offset)
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "%s: absmax is NULL; give it, or the quantized scales: codes, absmax2, map and offset", name);
  KW_TRY(check_pointer(name, "codes", s.codes, 1));
  KW_TRY(check_pointer(name, "absmax2", s.absmax2, 4));
  KW_TRY(check_pointer(name, "map", s.map, 4));
  return check_pointer(name, "offset", s.offset, 4);
}

}  // namespace kw::four_bit_checks
