// SPDX-License-Identifier: MIT
// From tensors to the weight that the 4-bit operators take by addresses: packed codes and their scales.
#pragma once

#include "core/tensor.h"
#include "ops/four_bit/geometry.h"
#include "ops/four_bit/host/checks.h"

namespace kw {

struct WeightTensors {
  const kw_tensor *packed, *absmax, *codes, *absmax2, *map, *offset;
};

namespace four_bit_tensors {

// Of this type, `count` elements, where `other` is, with memory if it is `used`; or left out.
template <typename Data>
kw_status read_flat(const char* function, const char* name, const kw_tensor* from, const kw_tensor& other,
                    int32_t dtype, int64_t count, bool used, const Data** data) {
  kw_tensor found;
  if (from == nullptr) return KW_OK;
  KW_TRY(read_tensor(function, name, from, &found));
  KW_TRY(check_flat(function, name, found, other, dtype, count, used));
  *data = static_cast<const Data*>(found.data);
  return KW_OK;
}

// One offset, or one for each part of the weight.
inline kw_status read_offset(const char* function, const kw_tensor* from, const kw_tensor& other, int64_t rows,
                             int64_t blocks, bool used, Scales4bit* scales) {
  kw_tensor found;
  int64_t parts = 0;
  if (from == nullptr) return KW_OK;
  KW_TRY(read_tensor(function, "offset", from, &found));
  KW_TRY(count_of(function, "offset", found, used, &parts));
  const bool fits = parts > 1 && parts <= int64_t{kMostParts} && rows % parts == 0 &&
                    blocks % (parts * kScalesABlock) == 0 && blocks >> 31 == 0;
  KW_TRY(check_flat(function, "offset", found, other, KW_FLOAT32, fits ? parts : 1, used));
  scales->offset = static_cast<const float*>(found.data);
  if (fits && blocks > 0) scales->part_blocks = blocks / parts, scales->parts = parts;
  return KW_OK;
}

// The weight of `count` elements. What is missing is found by the checks that follow; `other` says where all must be.
// `rows`: what parts of it have a whole number of; 1 where it has one.
inline kw_status read_weight(const char* function, const WeightTensors& t, const kw_tensor& other, int64_t rows,
                             int64_t count, int32_t blocksize, bool used, const uint8_t** packed, Scales4bit* scales) {
  KW_TRY(four_bit_checks::check_blocksize(function, blocksize));
  const int64_t blocks = (count + blocksize - 1) / blocksize;
  const int64_t outer = (blocks + kScalesABlock - 1) / kScalesABlock;
  KW_TRY(read_flat(function, "packed", t.packed, other, KW_UINT8, (count + 1) / 2, used, packed));
  KW_TRY(read_flat(function, "absmax", t.absmax, other, KW_FLOAT32, blocks, used, &scales->absmax));
  KW_TRY(read_flat(function, "codes", t.codes, other, KW_UINT8, blocks, used, &scales->codes));
  KW_TRY(read_flat(function, "absmax2", t.absmax2, other, KW_FLOAT32, outer, used, &scales->absmax2));
  KW_TRY(read_flat(function, "map", t.map, other, KW_FLOAT32, 256, used, &scales->map));
  return read_offset(function, t.offset, other, rows, blocks, used, scales);
}

}  // namespace four_bit_tensors
}  // namespace kw
