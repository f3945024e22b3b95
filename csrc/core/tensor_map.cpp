// SPDX-License-Identifier: MIT
#include "core/tensor_map.h"

#include "core/device.h"

namespace kw {

kw_status describe(const Context& context, const Boxes& boxes, void* map) {
  const Driver* table = nullptr;
  KW_TRY(driver(&table));
  const DeviceState& device = static_cast<const DeviceState&>(*context.device);
  const Current current(*table, device);
  KW_TRY(current.status());
  const uint64_t sizes[] = {static_cast<uint64_t>(boxes.columns), static_cast<uint64_t>(boxes.rows)};
  const uint64_t pitches[] = {sizes[0] * static_cast<uint64_t>(boxes.element)};
  const uint32_t box[] = {static_cast<uint32_t>(boxes.box_columns), static_cast<uint32_t>(boxes.box_rows)};
  const uint32_t every[] = {1, 1};
  KW_CUDA(*table, cuTensorMapEncodeTiled,
          (map, boxes.element == 1 ? CU_TENSOR_MAP_DATA_TYPE_UINT8 : CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2,
           const_cast<void*>(boxes.from), sizes, pitches, box, every, CU_TENSOR_MAP_INTERLEAVE_NONE,
           boxes.swizzled ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
           boxes.swizzled ? CU_TENSOR_MAP_L2_PROMOTION_L2_128B : CU_TENSOR_MAP_L2_PROMOTION_NONE,
           CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
          "describing %lld rows of %lld elements of %lld bytes, boxes of %lld by %lld, on CUDA device %d (%s)",
          static_cast<long long>(boxes.rows), static_cast<long long>(boxes.columns),
          static_cast<long long>(boxes.element), static_cast<long long>(boxes.box_rows),
          static_cast<long long>(boxes.box_columns), device.ordinal, device.name);
  return KW_OK;
}

}  // namespace kw
