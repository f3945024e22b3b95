// SPDX-License-Identifier: MIT
// The arithmetic with sizes that operators share, and what all of them refuse in the same words.
#include "core/checks.h"

#include "../check.h"

using namespace kw;

CASE(sizes_of_elements) {
  constexpr struct {
    int32_t dtype;
    unsigned bytes;
  } kTypes[] = {{KW_FLOAT64, 8}, {KW_FLOAT32, 4}, {KW_INT32, 4},         {KW_FLOAT16, 2}, {KW_BFLOAT16, 2},
                {KW_UINT8, 1},   {KW_INT8, 1},    {KW_FLOAT8_E4M3FN, 1}, {-1, 0},         {99, 0}};
  for (const auto& type : kTypes)
    CHECK(size_of(type.dtype) == type.bytes, "type %d has %u bytes", type.dtype, size_of(type.dtype));
}

CASE(shared_checks) {
  CHECK(check_rows("f", 3, 5) == KW_OK && check_rows("f", 0, 0) == KW_OK, "%s", kw_last_error());
  CHECK_STATUS(check_rows("f", -1, 5), KW_ERROR_INVALID_ARGUMENT, kw_last_error(),
               "f: rows is -1; it must not be negative");
  CHECK_STATUS(check_rows("f", 1, -5), KW_ERROR_INVALID_ARGUMENT, kw_last_error(),
               "f: cols is -5; it must not be negative");
  CHECK_STATUS(check_rows("f", kMaxElements, 2), KW_ERROR_INVALID_ARGUMENT, kw_last_error(),
               "no memory holds so many rows of 2");
  CHECK_STATUS(check_apart("f", "y", 4, 2, 5), KW_ERROR_INVALID_ARGUMENT, kw_last_error(), "y_stride is 4; rows of 5");
  CHECK_STATUS(check_apart("f", "y", -4, 2, 5), KW_ERROR_INVALID_ARGUMENT, kw_last_error(), "y_stride is -4");
  CHECK(check_apart("f", "y", -5, 2, 5) == KW_OK && check_apart("f", "y", 0, 1, 5) == KW_OK, "%s", kw_last_error());
  alignas(8) char memory[8];
  CHECK(check_pointer("f", "x", memory, 8) == KW_OK, "%s", kw_last_error());
  CHECK_STATUS(check_pointer("f", "x", memory + 2, 4), KW_ERROR_INVALID_ARGUMENT, kw_last_error(), "a multiple of 4");
  CHECK_STATUS(check_pointer("f", "x", nullptr, 4), KW_ERROR_INVALID_ARGUMENT, kw_last_error(), "f: x is NULL");
}

RUN_CASES()
