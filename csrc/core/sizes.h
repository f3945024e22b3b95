// SPDX-License-Identifier: MIT
// Sizes and element types, for all operators.
#pragma once

#include <kernelwright/base.h>

namespace kw {

constexpr int64_t kMaxElements = int64_t{1} << 57;  // more than there are addresses; far from an overflow in bytes

constexpr int64_t ratio_up(int64_t n, int64_t d) { return (n + d - 1) / d; }

// Bytes of an element; 0 of a type that has no number in base.h.
constexpr unsigned size_of(int32_t dtype) {
  switch (dtype) {
    case KW_FLOAT64:
      return 8;
    case KW_FLOAT32:
    case KW_INT32:
      return 4;
    case KW_FLOAT16:
    case KW_BFLOAT16:
      return 2;
    case KW_UINT8:
    case KW_INT8:
    case KW_FLOAT8_E4M3FN:
      return 1;
    default:
      return 0;
  }
}

// The element type as torch calls it.
constexpr const char* name_of(int32_t dtype) {
  switch (dtype) {
    case KW_FLOAT64:
      return "float64";
    case KW_FLOAT32:
      return "float32";
    case KW_FLOAT16:
      return "float16";
    case KW_BFLOAT16:
      return "bfloat16";
    case KW_INT32:
      return "int32";
    case KW_UINT8:
      return "uint8";
    case KW_INT8:
      return "int8";
    case KW_FLOAT8_E4M3FN:
      return "float8_e4m3fn";
    default:
      return "another type";
  }
}

}  // namespace kw
