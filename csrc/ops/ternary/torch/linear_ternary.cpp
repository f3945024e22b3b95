// SPDX-License-Identifier: MIT
#include "ops/ternary/api/linear_ternary.h"

#include "core/error.h"
#include "ops/ternary/params.h"
#include "ops/ternary/torch/codes.h"

namespace kw::torch {
namespace {

constexpr const char* kName = "linear_ternary";

kw_status linear_ternary(Call& call) {
  const kw_tensor &x = *call.tensor(0), &packed = *call.tensor(1), *const scale = call.tensor(2),
                  *const bias = call.tensor(3), *const weight = call.tensor(4), *const residual = call.tensor(7),
                  *y = nullptr;
  const int64_t n = call.whole(8);
  if (x.dtype < KW_FLOAT32 || x.dtype > KW_BFLOAT16 || x.dims < 1) return kElsewhere;
  TensorRows rows, added;
  int64_t scales = 1;
  KW_TRY(rows_of(kName, "x", x, &rows));
  if (x.device != KW_CPU && rows.count > KW_LINEAR_TERNARY_ROWS) return kElsewhere;
  KW_TRY(check_codes(kName, packed, scale, x, n, rows.cols, &scales));
  if (bias != nullptr && bias->dims != 1) return kElsewhere;
  if (bias != nullptr) KW_TRY(check_flat(kName, "bias", *bias, x, x.dtype, n, true));
  if (weight != nullptr) KW_TRY(check_columns(kName, "weight", *weight, x, rows, false));
  KW_TRY(call.make_rows(x, n, x.dtype, &y));
  if (residual != nullptr) KW_TRY(rows_beside(kName, "residual", *residual, *y, n, &added));
  if (rows.count == 0 || n == 0) return KW_OK;
  return kw_linear_ternary(x.device, call.stream(), y->data, n, x.data, rows.stride,
                           weight != nullptr ? weight->data : nullptr, static_cast<const uint8_t*>(packed.data),
                           scale != nullptr ? static_cast<const float*>(scale->data) : nullptr, scales,
                           bias != nullptr ? bias->data : nullptr, residual != nullptr ? residual->data : nullptr,
                           residual != nullptr ? added.stride : n, rows.count, n, rows.cols, x.dtype,
                           weight != nullptr ? weight->dtype : x.dtype, call.real(6), call.real(5));
}

KW_TORCH(linear_ternary, "linear_ternary",
         "(Tensor x, Tensor packed, Tensor? scale, Tensor? bias, Tensor? weight, float eps, float clamp, "
         "Tensor? residual, int n) -> Tensor")

}  // namespace
}  // namespace kw::torch
