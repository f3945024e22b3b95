// SPDX-License-Identifier: MIT
#include "ops/fp8/api/matmul_fp8.h"

#include "ops/int8/torch/factors.h"
#include "ops/linear/api/linear.h"

namespace kw::torch {
namespace {

constexpr const char* kName = "matmul_fp8";
constexpr const char* kActivations[] = {"none", "relu", "squared_relu", "silu", "gelu", "gelu_tanh"};

int64_t alignment_of(const kw_tensor& x, const kw_tensor& weight, int64_t strides) {
  const int64_t bits = static_cast<int64_t>(reinterpret_cast<uintptr_t>(x.data)) |
                       static_cast<int64_t>(reinterpret_cast<uintptr_t>(weight.data)) | strides;
  return bits % 16 == 0 ? 16 : 1;
}

kw_status matmul_fp8(Call& call) {
  const kw_tensor &x = *call.tensor(0), &weight = *call.tensor(1), *const x_scale = call.tensor(2),
                  *const weight_scale = call.tensor(3), *const bias = call.tensor(4), *y = nullptr;
  const int activation = call.one_of(5, kActivations, KW_GELU_TANH + 1);
  const int32_t dtype = call.type(6);
  if (x.dtype != KW_FLOAT8_E4M3FN || weight.dtype != KW_FLOAT8_E4M3FN || x.device != weight.device ||
      weight.dims != 2 || x.dims < 1 || x.dims > kMostDims || dtype < KW_FLOAT32 || dtype > KW_BFLOAT16 ||
      activation < 0)
    return kElsewhere;
  TensorRows rows, columns;
  KW_TRY(rows_of(kName, "x", x, &rows));
  KW_TRY(rows_of(kName, "weight", weight, &columns));
  if (rows.cols != columns.cols) return kElsewhere;
  int32_t fast = 0;
  KW_TRY(kw_matmul_fp8_fits(x.device, rows.count, columns.count, rows.cols,
                            alignment_of(x, weight, rows.stride | columns.stride), &fast));
  if (fast == 0) return kElsewhere;
  KW_TRY(check_factors(kName, x, rows, columns.count, x_scale, weight_scale, bias));
  KW_TRY(call.make_rows(x, columns.count, dtype, &y));
  return kw_matmul_fp8(x.device, call.stream(), y->data, columns.count, x.data, rows.stride, weight.data,
                       columns.stride, data_of<float>(x_scale), data_of<float>(weight_scale), data_of<void>(bias),
                       rows.count, columns.count, rows.cols, activation, dtype,
                       bias != nullptr ? bias->dtype : KW_FLOAT32);
}

KW_TORCH(matmul_fp8, "matmul_fp8",
         "(Tensor x, Tensor weight, Tensor? x_scale, Tensor? weight_scale, Tensor? bias, str activation, "
         "ScalarType dtype) -> Tensor")

}  // namespace
}  // namespace kw::torch
