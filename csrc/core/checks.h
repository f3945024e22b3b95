// SPDX-License-Identifier: MIT
// What the entry points of all operators refuse in the same words. A message names the C function and the argument.
#pragma once

#include "core/error.h"
#include "core/sizes.h"

namespace kw {

inline kw_status check_device(const char* function, int32_t device) {
  if (device < KW_CPU)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: device is %d; it must be KW_CPU (-1) or the number of a GPU", function,
                device);
  return KW_OK;
}

// Of an operator whose record says why it has none (no_cpu).
inline kw_status refuse_cpu(const char* function) {
  return fail(KW_ERROR_UNSUPPORTED, "%s: it has no CPU implementation; give it the number of a GPU", function);
}

// The element types that most operators compute with.
inline kw_status check_float_type(const char* function, int32_t dtype) {
  if (dtype != KW_FLOAT32 && dtype != KW_FLOAT16 && dtype != KW_BFLOAT16)
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "%s: dtype is %d; it must be KW_FLOAT32 (0), KW_FLOAT16 (1) or KW_BFLOAT16 (2)", function, dtype);
  return KW_OK;
}

inline kw_status check_size(const char* function, const char* argument, int64_t size) {
  if (size < 0)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s is %lld; it must not be negative", function, argument,
                (long long)size);
  if (size > kMaxElements)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s is %lld; no memory holds so many. Look at how it was computed",
                function, argument, (long long)size);
  return KW_OK;
}

// Sizes of rows of `cols` elements that must fit into memory together.
inline kw_status check_rows(const char* function, int64_t rows, int64_t cols) {
  if (rows < 0 || cols < 0)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s is %lld; it must not be negative", function,
                rows < 0 ? "rows" : "cols", (long long)(rows < 0 ? rows : cols));
  if (cols > 0 && rows > kMaxElements / cols)
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "%s: rows is %lld; no memory holds so many rows of %lld elements. Look at how it was computed",
                function, (long long)rows, (long long)cols);
  return KW_OK;
}

// An array of elements of `size` bytes must be there, and lie where such elements may.
inline kw_status check_pointer(const char* function, const char* argument, const void* data, unsigned size) {
  if (data == nullptr) return fail(KW_ERROR_INVALID_ARGUMENT, "%s: %s is NULL", function, argument);
  if (reinterpret_cast<uintptr_t>(data) % size != 0)
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "%s: %s is at %p; its elements of %u bytes need an address that is a multiple of %u", function,
                argument, data, size, size);
  return KW_OK;
}

// Rows that are written must lie apart.
inline kw_status check_apart(const char* function, const char* argument, int64_t stride, int64_t rows, int64_t cols) {
  if (rows > 1 && stride < cols && stride > -cols)
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "%s: %s_stride is %lld; rows of %lld elements that are written must not overlap", function, argument,
                (long long)stride, (long long)cols);
  return KW_OK;
}

}  // namespace kw
