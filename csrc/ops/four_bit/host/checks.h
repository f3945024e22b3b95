// SPDX-License-Identifier: MIT
// What the entry points of the 4-bit operators refuse. A message names the C function and the argument.
#pragma once

#include "core/error.h"
#include "ops/four_bit/host/four_bit.h"

namespace kw::four_bit_checks {

constexpr int64_t kMaxElements = int64_t{1} << 57;  // more than there are addresses; far from an overflow
constexpr unsigned kWorkspaceAlignment = 16;

inline unsigned size_of(int32_t dtype) { return dtype == KW_FLOAT32 ? 4 : 2; }

inline kw_status check_device(const char* name, int32_t device) {
  if (device < KW_CPU)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: device is %d; it must be KW_CPU (-1) or the number of a GPU", name,
                device);
  return KW_OK;
}

inline kw_status check_dtype(const char* name, int32_t dtype) {
  if (dtype != KW_FLOAT32 && dtype != KW_FLOAT16 && dtype != KW_BFLOAT16)
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "%s: dtype is %d; it must be KW_FLOAT32 (0), KW_FLOAT16 (1) or KW_BFLOAT16 (2)", name, dtype);
  return KW_OK;
}

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

inline kw_status check_size(const char* name, const char* argument, int64_t size) {
  if (size < 0)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s is %lld; it must not be negative", name, argument, (long long)size);
  if (size > kMaxElements)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s is %lld; no memory holds so many. Look at how it was computed", name,
                argument, (long long)size);
  return KW_OK;
}

inline kw_status check_pointer(const char* name, const char* argument, const void* data, unsigned size) {
  if (data == nullptr) return fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s is NULL", name, argument);
  if (reinterpret_cast<uintptr_t>(data) % size != 0)
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "%s: %s is at %p; its elements of %u bytes need an address that is a multiple of %u", name, argument,
                data, size, size);
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
