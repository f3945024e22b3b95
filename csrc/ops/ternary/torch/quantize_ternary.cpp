// SPDX-License-Identifier: MIT
#include "ops/ternary/api/quantize_ternary.h"

#include "core/error.h"
#include "ops/ternary/torch/codes.h"

namespace kw::torch {
namespace {

kw_status quantize_ternary(Call& call) {
  const kw_tensor &weight = *call.tensor(0), *packed = nullptr, *scale = nullptr;
  if (weight.dims != 2 || weight.dtype < KW_FLOAT32 || weight.dtype > KW_BFLOAT16) return kElsewhere;
  TensorRows rows;
  KW_TRY(rows_of("quantize_ternary", "weight", weight, &rows));
  const int64_t scales = call.flag(1) ? rows.count : 1;
  int64_t sizes[2];
  if (!sizes_of_codes(rows.count, rows.cols, sizes)) return kElsewhere;
  KW_TRY(call.make(2, sizes, KW_UINT8, &packed));
  KW_TRY(call.make(1, &scales, KW_FLOAT32, &scale));
  return kw_quantize_ternary(weight.device, call.stream(), static_cast<uint8_t*>(packed->data),
                             static_cast<float*>(scale->data), scales, weight.data, rows.stride, rows.count, rows.cols,
                             weight.dtype);
}

KW_TORCH(quantize_ternary, "quantize_ternary", "(Tensor weight, bool per_row) -> (Tensor, Tensor)")

}  // namespace
}  // namespace kw::torch
