// SPDX-License-Identifier: MIT
// Large pages for results. Memory that a caller has just allocated comes in pages of 4 KiB as it is written, one fault
// each: 1.4 us on a virtual machine, while the page is written in a fifth of that. Where the system grants pages of
// 2 MiB to whoever asks (Linux' usual setting), asking makes a fresh result several times as fast.
#pragma once

#include <stdint.h>

namespace kw::cpu {

// Asks for the whole pages of 2 MiB among these bytes, all of which are about to be written; nothing outside them
// changes. Only a wish: without it, or where the memory is in use already, results are the same.
void will_write(const void* result, int64_t bytes);

// The same of a matrix, if its rows follow each other without a gap.
inline void will_write(const void* result, int64_t rows, int64_t stride, int64_t row_bytes, int64_t element_bytes) {
  if (rows == 1 || stride * element_bytes == row_bytes) will_write(result, rows * row_bytes);
}

}  // namespace kw::cpu
