// SPDX-License-Identifier: MIT
#include "ops/ternary/api/dequantize_ternary.h"

#include "core/error.h"
#include "ops/ternary/torch/codes.h"

namespace kw::torch {
namespace {

kw_status dequantize_ternary(Call& call) {
  const kw_tensor &packed = *call.tensor(0), &scale = *call.tensor(1), *y = nullptr;
  const int64_t sizes[2] = {call.whole(2), call.whole(3)};
  const int32_t dtype = call.type(4);
  int64_t scales = 0;
  if (dtype < KW_FLOAT32 || dtype > KW_BFLOAT16) return kElsewhere;
  KW_TRY(check_codes("dequantize_ternary", packed, &scale, packed, sizes[0], sizes[1], &scales));
  KW_TRY(call.make(2, sizes, dtype, &y));
  if (sizes[0] == 0 || sizes[1] == 0) return KW_OK;
  return kw_dequantize_ternary(packed.device, call.stream(), y->data, sizes[1],
                               static_cast<const uint8_t*>(packed.data), static_cast<const float*>(scale.data), scales,
                               sizes[0], sizes[1], dtype);
}

KW_TORCH(dequantize_ternary, "dequantize_ternary",
         "(Tensor packed, Tensor scale, int n, int k, ScalarType dtype) -> Tensor")

}  // namespace
}  // namespace kw::torch
