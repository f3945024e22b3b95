// SPDX-License-Identifier: MIT
// Rows of elements in a buffer that shows whatever is written outside them.
#pragma once

#include "check.h"

constexpr int64_t kPad = 5;  // elements between rows
constexpr unsigned char kSentinel = 0xa5;

// Begins `shift` elements off alignment; elements that nobody wrote are sentinels too.
struct Rows {
  const Format* format;
  int64_t rows, cols, stride;
  char* all;
  char* data;
  size_t bytes;

  Rows(const Format& f, int64_t count, int64_t columns, int64_t shift)
      : format(&f), rows(count), cols(columns), stride(columns + kPad) {
    bytes = (static_cast<size_t>(rows * stride + shift + kPad) * f.size + 127) / 64 * 64;
    all = static_cast<char*>(aligned_alloc(64, bytes));
    memset(all, kSentinel, bytes);
    data = all + static_cast<size_t>(shift) * f.size;
  }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;
  ~Rows() { free(all); }

  double at(int64_t row, int64_t i) const { return get(*format, data, row * stride + i); }
  void fill(Random& random, double scale, double mean = 0) {
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = 0; i < cols; ++i)
        set(*format, data, row * stride + i, rounded(*format, mean + random.normal() * scale));
    }
  }
  // Only the rows' own elements may have changed.
  bool intact() const {
    for (const char* p = all; p < all + bytes; ++p) {
      const int64_t element = (p - data) / static_cast<int64_t>(format->size);
      const bool inside = p >= data && element / stride < rows && element % stride < cols;
      if (!inside && static_cast<unsigned char>(*p) != kSentinel) return false;
    }
    return true;
  }
};
