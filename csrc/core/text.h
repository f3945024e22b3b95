// SPDX-License-Identifier: MIT
// A line of words being put together, for messages. What does not fit ends in dots.
#pragma once

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

namespace kw {

template <size_t N>
struct Text {
  char data[N] = {};
  size_t used = 0;

  [[gnu::format(printf, 2, 3)]] void add(const char* format, ...) {
    if (used >= N - 1) return;
    va_list arguments;
    va_start(arguments, format);
    const int wanted = vsnprintf(data + used, N - used, format, arguments);
    va_end(arguments);
    if (wanted < 0) return;
    used += static_cast<size_t>(wanted);
    if (used < N) return;
    used = N - 1;
    memcpy(data + N - 4, "...", 4);
  }
};

}  // namespace kw
