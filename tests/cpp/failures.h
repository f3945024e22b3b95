// SPDX-License-Identifier: MIT
// CHECK(condition, "words", …) counts a failure and says it; the first twenty are enough to read.
#pragma once

#include <stdio.h>

inline int failures = 0;

#define CHECK(condition, ...)                                         \
  do {                                                                \
    if (!(condition) && failures++ < 20) {                            \
      fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition); \
      fprintf(stderr, __VA_ARGS__);                                   \
      fputc('\n', stderr);                                            \
    }                                                                 \
  } while (0)
