// SPDX-License-Identifier: MIT
// Tensor maps (TMA descriptors): what the driver makes of an array in memory for kernels that copy boxes of it.
#pragma once

#include "core/launch.h"

namespace kw {

constexpr int kMaxMapDims = 5;

// How 16-byte pieces of a box lie in shared memory: XORed with the row within 32, 64 or 128 bytes.
enum class Swizzle { kNone, k32, k64, k128 };

// Dimensions begin with the innermost, whose elements follow each other without gaps.
struct TensorMap {
  const void* data;              // on 16 bytes
  int32_t dtype;                 // an element type of base.h
  int dims;                      // 2 to 5
  int64_t sizes[kMaxMapDims];    // elements
  int64_t pitches[kMaxMapDims];  // bytes from one to the next of dimensions 1, 2, …: [0] is not used; multiples of 16
  int64_t box[kMaxMapDims];      // elements, 256 at most in each; the innermost ones are a multiple of 16 bytes
  Swizzle swizzle;               // then the box's innermost dimension is so many bytes at most
};

// Rows of a matrix, `pitch` bytes apart.
constexpr TensorMap matrix_map(const void* data, int32_t dtype, int64_t rows, int64_t columns, int64_t pitch,
                               int64_t box_rows, int64_t box_columns, Swizzle swizzle) {
  return {data, dtype, 2, {columns, rows}, {0, pitch}, {box_columns, box_rows}, swizzle};
}

// To `map`, of 128 bytes on 64. Past the ends of the array a box has zeros; a store of one leaves out what is there.
kw_status encode(const Context& context, const TensorMap& described, void* map);

}  // namespace kw
