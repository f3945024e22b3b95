// SPDX-License-Identifier: MIT
#include "core/tensor_map.h"

#include "core/device.h"
#include "core/sizes.h"
#include "core/text.h"

namespace kw {
namespace {

TensorMapDataType type_of(int32_t dtype) {
  switch (dtype) {
    case KW_FLOAT32:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    case KW_FLOAT16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case KW_BFLOAT16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case KW_FLOAT64:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
    case KW_INT32:
      return CU_TENSOR_MAP_DATA_TYPE_INT32;
    default:  // of one byte: nothing is computed with elements on the way
      return CU_TENSOR_MAP_DATA_TYPE_UINT8;
  }
}

TensorMapSwizzle swizzle_of(Swizzle swizzle) {
  switch (swizzle) {
    case Swizzle::k32:
      return CU_TENSOR_MAP_SWIZZLE_32B;
    case Swizzle::k64:
      return CU_TENSOR_MAP_SWIZZLE_64B;
    case Swizzle::k128:
      return CU_TENSOR_MAP_SWIZZLE_128B;
    default:
      return CU_TENSOR_MAP_SWIZZLE_NONE;
  }
}

Text<160> words_of(const TensorMap& m) {
  Text<160> text;
  for (int i = 0; i < m.dims; ++i) text.add("%s%lld", i > 0 ? "x" : "", static_cast<long long>(m.sizes[i]));
  text.add(" in boxes of ");
  for (int i = 0; i < m.dims; ++i) text.add("%s%lld", i > 0 ? "x" : "", static_cast<long long>(m.box[i]));
  return text;
}

}  // namespace

kw_status encode(const Context& context, const TensorMap& described, void* map) {
  const Driver* table = nullptr;
  KW_TRY(driver(&table));
  const DeviceState& device = static_cast<const DeviceState&>(*context.device);
  const Current current(*table, device);
  KW_TRY(current.status());
  uint64_t sizes[kMaxMapDims], pitches[kMaxMapDims];
  uint32_t box[kMaxMapDims], every[kMaxMapDims];
  for (int i = 0; i < described.dims; ++i) {
    sizes[i] = static_cast<uint64_t>(described.sizes[i]);
    if (i > 0) pitches[i - 1] = static_cast<uint64_t>(described.pitches[i]);
    box[i] = static_cast<uint32_t>(described.box[i]);
    every[i] = 1;
  }
  const bool swizzled = described.swizzle != Swizzle::kNone;
  KW_CUDA(*table, cuTensorMapEncodeTiled,
          (map, type_of(described.dtype), static_cast<uint32_t>(described.dims), const_cast<void*>(described.data),
           sizes, pitches, box, every, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(described.swizzle),
           swizzled ? CU_TENSOR_MAP_L2_PROMOTION_L2_128B : CU_TENSOR_MAP_L2_PROMOTION_NONE,
           CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
          "describing an array of %s elements of %u bytes on CUDA device %d (%s)", words_of(described).data,
          size_of(described.dtype), device.ordinal, device.name);
  return KW_OK;
}

}  // namespace kw
