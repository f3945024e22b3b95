// SPDX-License-Identifier: MIT
// Tensors with memory of their own, as the functions of tensors are given them.
#pragma once

#include "check.h"

constexpr int64_t kMostDims = 4;

struct Shape {
  const char* name;
  int64_t leading;               // dimensions before the last
  int64_t sizes[kMostDims - 1];  // of those
  bool gaps;                     // between rows, other ones in each tensor of a call

  int64_t rows() const {
    int64_t product = 1;
    for (int64_t i = 0; i < leading; ++i) product *= sizes[i];
    return product;
  }
};

constexpr Shape kColumn = {"columns", 0, {}, false};  // one element for each column

// Its memory begins one element off alignment and holds something everywhere, between rows too. A copy has the same in
// memory of its own.
struct Tensor {
  int64_t sizes[kMostDims] = {}, strides[kMostDims] = {};
  int64_t stride;  // from one row to the next
  size_t bytes;
  char* all;
  char* data;
  kw_tensor as;

  Tensor(const Format& format, const Shape& shape, int64_t cols, int64_t gap, Random& random)
      : stride(cols + (shape.gaps ? gap : 0)),
        bytes((static_cast<size_t>(shape.rows() * stride + 9) * format.size + 63) / 64 * 64),
        all(static_cast<char*>(aligned_alloc(64, bytes))),
        data(all + format.size),
        as{KW_TENSOR, shape.rows() > 0 ? data : nullptr, sizes, strides, shape.leading + 1, format.dtype, KW_CPU} {
    int64_t next = stride;
    for (int64_t i = shape.leading - 1; i >= 0; --i) {
      sizes[i] = shape.sizes[i];
      strides[i] = sizes[i] == 1 ? 77777 : next;  // which is no one's concern
      next *= sizes[i];
    }
    sizes[shape.leading] = cols;
    strides[shape.leading] = cols == 1 ? -3 : 1;
    for (int64_t i = 0; i < static_cast<int64_t>(bytes / format.size); ++i)
      set(format, all, i, rounded(format, random.normal()));
  }
  Tensor(const Tensor& other)
      : stride(other.stride),
        bytes(other.bytes),
        all(static_cast<char*>(aligned_alloc(64, bytes))),
        data(all + (other.data - other.all)),
        as(other.as) {
    memcpy(sizes, other.sizes, sizeof sizes);
    memcpy(strides, other.strides, sizeof strides);
    memcpy(all, other.all, bytes);
    if (as.data != nullptr) as.data = data;
    as.sizes = sizes;
    as.strides = strides;
  }
  Tensor& operator=(const Tensor&) = delete;
  ~Tensor() { free(all); }

  bool same(const Tensor& other) const { return memcmp(all, other.all, bytes) == 0; }
};
