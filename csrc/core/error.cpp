// SPDX-License-Identifier: MIT
#include "core/error.h"

#include <stdarg.h>
#include <stdio.h>

namespace {

// Room for a compiler's log; what is longer ends cut off, never overflows.
thread_local char message[4096];

}  // namespace

kw_status kw::fail(kw_status status, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  return status;
}

const char* kw_last_error(void) { return message; }
