// SPDX-License-Identifier: MIT
// Elements without gaps in several shapes, with memory of their own.
#pragma once

#include "check.h"

constexpr int kForms = 5;  // one dimension, a column as bitsandbytes has it, a row, in four dimensions, two rows

inline size_t size_of(int32_t dtype) { return dtype == KW_UINT8 ? 1 : dtype == KW_FLOAT32 ? 4 : 2; }

// Begins one element off alignment, ends where its memory ends. A copy has the same in memory of its own. A single
// number may have no dimension.
struct Flat {
  int64_t sizes[4] = {}, strides[4] = {};
  size_t size, room;
  char *all, *first;  // what it holds, and what it held at first
  char* data;
  kw_tensor as;

  Flat(int32_t dtype, int64_t count, int form, Random& random)
      : size(size_of(dtype)),
        room(static_cast<size_t>(count + 1) * size),
        all(static_cast<char*>(malloc(room))),
        first(static_cast<char*>(malloc(room))),
        data(all + size),
        as{KW_TENSOR, count > 0 ? data : nullptr, sizes, strides, 0, dtype, KW_CPU} {
    const auto dimension = [this](int64_t length, int64_t stride) {
      sizes[as.dims] = length;
      strides[as.dims] = length == 1 ? 77777 - as.dims : stride;  // of one element it is no one's concern
      ++as.dims;
    };
    form %= kForms;
    if (form == 2 || form == 3) dimension(1, 0);
    if (form == 3) dimension(1, 0);
    if (form == 4 && count % 2 == 0) dimension(2, count / 2);
    if (form != 2 || count != 1) dimension(form == 4 && count % 2 == 0 ? count / 2 : count, 1);
    if (form == 1 || form == 3) dimension(1, 0);
    if (form == 4 && count == 1) as.dims = 0;
    const Format& format = kFormats[dtype == KW_UINT8 ? 0 : dtype];
    for (int64_t i = 0; i <= count; ++i) {
      if (dtype == KW_UINT8) {
        all[i] = static_cast<char>(random.bits());
      } else {
        set(format, all, i, rounded(format, random.normal()));
      }
    }
    memcpy(first, all, room);
  }
  Flat(const Flat& other)
      : size(other.size),
        room(other.room),
        all(static_cast<char*>(malloc(room))),
        first(static_cast<char*>(malloc(room))),
        data(all + size),
        as(other.as) {
    memcpy(sizes, other.sizes, sizeof sizes);
    memcpy(strides, other.strides, sizeof strides);
    memcpy(all, other.all, room);
    memcpy(first, other.first, room);
    if (as.data != nullptr) as.data = data;
    as.sizes = sizes;
    as.strides = strides;
  }
  Flat& operator=(const Flat&) = delete;
  ~Flat() {
    free(all);
    free(first);
  }

  const uint8_t* bytes() const { return reinterpret_cast<const uint8_t*>(data); }
  const float* floats() const { return reinterpret_cast<const float*>(data); }
  bool same(const Flat& other) const { return memcmp(all, other.all, room) == 0; }
  bool intact() const { return memcmp(all, first, room) == 0; }
};
