// SPDX-License-Identifier: MIT
// The arguments of the block-wise operators, and what their entry points refuse. A message names the C function and the
// argument.
#pragma once

#include "core/error.h"

namespace kw {

struct Blockwise {
  void* wide;  // x or y
  uint8_t* codes;
  float* absmax;
  const float* map;
  int64_t count;
  int32_t blocksize, dtype;
};

namespace cpu {
kw_status quantize_blockwise(const Blockwise& args);
kw_status dequantize_blockwise(const Blockwise& args);
}  // namespace cpu

namespace blockwise {

constexpr int64_t kMaxElements = int64_t{1} << 57;  // more than there are addresses; far from an overflow
constexpr int32_t kLeastBlock = 32, kMostBlock = 4096;

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

inline kw_status check_count(const char* name, int64_t count) {
  if (count < 0 || count > kMaxElements)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: count is %lld; it must be the elements of a tensor, 0 or more", name,
                (long long)count);
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

inline kw_status check(const char* name, const char* wide, int32_t device, const Blockwise& a) {
  KW_TRY(check_device(name, device));
  KW_TRY(check_dtype(name, a.dtype));
  if (a.blocksize < kLeastBlock || a.blocksize > kMostBlock || (a.blocksize & (a.blocksize - 1)) != 0)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: blocksize is %d; it must be a power of two from %d to %d", name,
                a.blocksize, kLeastBlock, kMostBlock);
  KW_TRY(check_count(name, a.count));
  if (a.count == 0) return KW_OK;
  KW_TRY(check_pointer(name, wide, a.wide, a.dtype == KW_FLOAT32 ? 4 : 2));
  KW_TRY(check_pointer(name, "codes", a.codes, 1));
  KW_TRY(check_pointer(name, "absmax", a.absmax, 4));
  return check_pointer(name, "map", a.map, 4);
}

}  // namespace blockwise
}  // namespace kw
