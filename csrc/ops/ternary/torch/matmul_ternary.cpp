// SPDX-License-Identifier: MIT
#include "ops/ternary/api/matmul_ternary.h"

#include "core/error.h"
#include "ops/ternary/torch/codes.h"

namespace kw::torch {
namespace {

constexpr const char* kName = "matmul_ternary";

kw_status matmul_ternary(Call& call) {
  const kw_tensor &x = *call.tensor(0), &packed = *call.tensor(1), *const absmax = call.tensor(2),
                  *const scale = call.tensor(3), *const bias = call.tensor(4), *y = nullptr;
  const int64_t n = call.whole(5);
  const int32_t dtype = call.type(6);
  if (x.dtype != KW_INT8 || x.dims < 1 || x.dims > kMostDims ||
      (dtype != KW_INT32 && (dtype < KW_FLOAT32 || dtype > KW_BFLOAT16)) ||
      (dtype == KW_INT32 && (absmax != nullptr || scale != nullptr || bias != nullptr)))
    return kElsewhere;
  TensorRows rows;
  int64_t scales = 1;
  KW_TRY(rows_of(kName, "x", x, &rows));
  KW_TRY(check_codes(kName, packed, scale, x, n, rows.cols, &scales));
  if (absmax != nullptr) KW_TRY(check_flat(kName, "absmax", *absmax, x, KW_FLOAT32, rows.count, true));
  if (bias != nullptr && bias->dims != 1) return kElsewhere;
  if (bias != nullptr) KW_TRY(check_flat(kName, "bias", *bias, x, dtype, n, true));
  KW_TRY(call.make_rows(x, n, dtype, &y));
  if (rows.count == 0 || n == 0) return KW_OK;
  return kw_matmul_ternary(x.device, call.stream(), y->data, n, static_cast<const int8_t*>(x.data), rows.stride,
                           static_cast<const uint8_t*>(packed.data),
                           absmax != nullptr ? static_cast<const float*>(absmax->data) : nullptr,
                           scale != nullptr ? static_cast<const float*>(scale->data) : nullptr, scales,
                           bias != nullptr ? bias->data : nullptr, rows.count, n, rows.cols, dtype);
}

KW_TORCH(matmul_ternary, "matmul_ternary",
         "(Tensor x, Tensor packed, Tensor? absmax, Tensor? scale, Tensor? bias, int n, ScalarType dtype) -> Tensor")

}  // namespace
}  // namespace kw::torch
