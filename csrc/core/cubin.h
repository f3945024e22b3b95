// SPDX-License-Identifier: MIT
// What a kernel file says it is. The driver cannot be asked: it takes a cubin for another GPU without a word and fails
// only when a kernel of it is looked up.
#pragma once

#include <stddef.h>

#include "core/image.h"

namespace kw {

// Checks that the bytes are a whole cubin (or PTX) for the architecture of `image`. `path` is for the message.
kw_status check_code(const Image& image, const char* path, const char* bytes, size_t size);

}  // namespace kw
