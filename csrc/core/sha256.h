// SPDX-License-Identifier: MIT
// SHA-256 (FIPS 180-4), for checking kernel files against the hashes compiled in.
#pragma once

#include <stddef.h>

namespace kw {

// Writes 64 hex digits and a NUL.
void sha256_hex(const void* data, size_t size, char hex[65]);

}  // namespace kw
