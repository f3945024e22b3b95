// SPDX-License-Identifier: MIT
// The weight of a call of a 4-bit operator: packed codes, then absmax or the four of quantized scales.
#pragma once

#include "ops/four_bit/api/quantize_4bit.h"
#include "torch/operator.h"

namespace kw::torch {

struct Weight {
  const kw_tensor *packed, *absmax, *codes, *absmax2, *map, *offset;
  int rest;  // the place of the first argument after it
};

inline Weight weight_of(const Call& call, int place, bool nested) {
  if (!nested) return {call.tensor(place), call.tensor(place + 1), nullptr, nullptr, nullptr, nullptr, place + 2};
  return {call.tensor(place),     nullptr,  call.tensor(place + 1), call.tensor(place + 2), call.tensor(place + 3),
          call.tensor(place + 4), place + 5};
}

// KW_NF4 or KW_FP4, or -1.
inline int quant_type_of(const Call& call, int place) {
  static constexpr const char* kNames[] = {"nf4", "fp4"};
  return call.one_of(place, kNames, 2);
}

inline int64_t elements_of(const kw_tensor& tensor) {
  int64_t count = 1;
  for (int64_t i = 0; i < tensor.dims; ++i) count *= tensor.sizes[i];
  return count;
}

// As the C functions count it; what does not fit, no block size is.
inline int32_t blocksize_of(int64_t blocksize) { return blocksize > 0 && blocksize < 65536 ? (int32_t)blocksize : -1; }

}  // namespace kw::torch
