// SPDX-License-Identifier: MIT
#include "ops/int8/api/quantize_rows_int8.h"

#include "core/error.h"
#include "core/tensor.h"
#include "torch/operator.h"

namespace kw::torch {
namespace {

enum class Third { kNone, kSums, kOutliers };

// What follows x: weight, eps and clamp, or of outliers the threshold and clamp.
kw_status quantize(Call& call, Third third) {
  constexpr const char* kName = "quantize_rows_int8";
  const bool cuts = third == Third::kOutliers;
  const kw_tensor &x = *call.tensor(0), *const weight = cuts ? nullptr : call.tensor(1);
  const double threshold = cuts ? call.real(1) : 0.0, eps = cuts ? -1.0 : call.real(2);
  if (x.dtype < KW_FLOAT32 || x.dtype > KW_BFLOAT16 || (cuts && !(threshold > 0.0))) return kElsewhere;
  TensorRows rows;
  KW_TRY(rows_of(kName, "x", x, &rows));
  if (weight != nullptr) KW_TRY(check_columns(kName, "weight", *weight, x, rows, false));
  const kw_tensor *codes = nullptr, *absmax = nullptr, *last = nullptr;
  KW_TRY(call.make(x.dims, x.sizes, KW_INT8, &codes));
  KW_TRY(call.make(x.dims - 1, x.sizes, KW_FLOAT32, &absmax));
  if (third == Third::kSums) KW_TRY(call.make(x.dims - 1, x.sizes, KW_INT32, &last));
  if (cuts) KW_TRY(call.make(1, &x.sizes[x.dims - 1], KW_UINT8, &last));
  return kw_quantize_rows_int8(x.device, call.stream(), static_cast<int8_t*>(codes->data), rows.cols,
                               static_cast<float*>(absmax->data),
                               third == Third::kSums ? static_cast<int32_t*>(last->data) : nullptr,
                               cuts ? static_cast<uint8_t*>(last->data) : nullptr, x.data, rows.stride,
                               weight != nullptr ? weight->data : nullptr, rows.count, rows.cols, x.dtype,
                               weight != nullptr ? weight->dtype : x.dtype, call.real(cuts ? 2 : 3), threshold, eps);
}

kw_status quantize_rows(Call& call) { return quantize(call, Third::kNone); }
kw_status quantize_rows_sums(Call& call) { return quantize(call, Third::kSums); }
kw_status quantize_rows_outliers(Call& call) { return quantize(call, Third::kOutliers); }

KW_TORCH(quantize_rows, "quantize_rows_int8", "(Tensor x, Tensor? weight, float eps, float clamp) -> (Tensor, Tensor)")
KW_TORCH(quantize_rows_sums, "quantize_rows_int8.sums",
         "(Tensor x, Tensor? weight, float eps, float clamp) -> (Tensor, Tensor, Tensor)")
KW_TORCH(quantize_rows_outliers, "quantize_rows_int8.outliers",
         "(Tensor x, float threshold, float clamp) -> (Tensor, Tensor, Tensor)")

}  // namespace
}  // namespace kw::torch
