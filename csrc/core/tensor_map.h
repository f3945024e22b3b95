// SPDX-License-Identifier: MIT
// Matrices in memory of which a kernel copies boxes at once: what the driver makes of them is a parameter of the
// kernel.
#pragma once

#include "core/launch.h"

namespace kw {

struct Boxes {
  const void* from;  // on 16 bytes
  int64_t rows, columns;
  int64_t element;  // bytes: 1, or 4 for floats; those of a row are a multiple of 16
  int64_t box_rows, box_columns;
  bool swizzled;  // 16 bytes of a box's row of 128 lie where their number and the last bits of the row's differ
};

// To `map`, of 128 bytes on 64. Past the end of the matrix a box has zeros.
kw_status describe(const Context& context, const Boxes& boxes, void* map);

}  // namespace kw
