// SPDX-License-Identifier: MIT
// Whole numbers in text. Not by strtol or sscanf: what is compiled against glibc 2.38 or newer calls other functions
// for those (__isoc23_strtol), which the glibc of a Jetson does not have.
#pragma once

#include <limits.h>

namespace kw {

// The decimal number that a text begins with, as strtol reads it: blanks, a sign, digits. `end` is what follows it, or
// the text where there is none. False where there is none, or where it fits no long long.
inline bool read_number(const char* text, const char** end, long long* number) {
  const char* at = text;
  while (*at == ' ' || (*at >= '\t' && *at <= '\r')) ++at;
  const bool negative = *at == '-';
  if (*at == '-' || *at == '+') ++at;
  *end = text;
  bool fits = *at >= '0' && *at <= '9';
  long long found = 0;  // below 0, where there is room for one more
  for (; *at >= '0' && *at <= '9'; *end = ++at) {
    fits = fits && !__builtin_mul_overflow(found, 10, &found) && !__builtin_sub_overflow(found, *at - '0', &found);
  }
  if (!fits || (!negative && found == LLONG_MIN)) return false;
  *number = negative ? found : -found;
  return true;
}

}  // namespace kw
