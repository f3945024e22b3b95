// SPDX-License-Identifier: MIT
// The two ways to fail: a code plus words in the thread's message. Nothing throws, nothing exits.
#pragma once

#include <kernelwright/base.h>

namespace kw {

// Stores the words for kw_last_error() and returns `status`. The text says what failed, on what,
// what was found, and what to do.
[[gnu::format(printf, 2, 3)]] kw_status fail(kw_status status, const char* format, ...);

}  // namespace kw

// Returns from the calling function with the status unless it is KW_OK.
#define KW_TRY(call)                            \
  do {                                          \
    const kw_status kw_status_ = (call);        \
    if (kw_status_ != KW_OK) return kw_status_; \
  } while (0)
