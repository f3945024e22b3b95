// SPDX-License-Identifier: MIT
#include "ops/int8/api/matmul_int8.h"

#include "cpu/isa.h"
#include "ops/int8/torch/factors.h"

namespace kw::torch {
namespace {

constexpr const char* kName = "matmul_int8";
constexpr int64_t kManyRows = 96;  // from which on torch's product may be the faster one: Python knows

kw_status matmul_int8(Call& call) {
  const kw_tensor &x = *call.tensor(0), &weight = *call.tensor(1), *const x_scale = call.tensor(2),
                  *const weight_scale = call.tensor(3), *const bias = call.tensor(4), *y = nullptr;
  const int32_t dtype = call.type(6);
  if (x.dtype != KW_INT8 || weight.dtype != KW_INT8 || x.device != weight.device || weight.dims != 2 || x.dims < 1 ||
      x.dims > kMostDims || (dtype != KW_INT32 && (dtype < KW_FLOAT32 || dtype > KW_BFLOAT16)) ||
      !(__builtin_fabs(call.real(5)) <= 3e38))
    return kElsewhere;
  TensorRows rows, columns;
  KW_TRY(rows_of(kName, "x", x, &rows));
  KW_TRY(rows_of(kName, "weight", weight, &columns));
  if (rows.cols != columns.cols) return kElsewhere;
  if (x.device == KW_CPU && rows.count >= kManyRows && cpu::has_vnni()) return kElsewhere;
  KW_TRY(check_factors(kName, x, rows, columns.count, x_scale, weight_scale, bias));
  KW_TRY(call.make_rows(x, columns.count, dtype, &y));
  return kw_matmul_int8(x.device, call.stream(), y->data, columns.count, data_of<int8_t>(&x), rows.stride,
                        data_of<int8_t>(&weight), columns.stride, data_of<float>(x_scale), data_of<float>(weight_scale),
                        data_of<void>(bias), rows.count, columns.count, rows.cols, dtype,
                        bias != nullptr ? bias->dtype : KW_FLOAT32, dtype == KW_INT32 ? 1.0 : call.real(5));
}

KW_TORCH(matmul_int8, "matmul_int8",
         "(Tensor x, Tensor weight, Tensor? x_scale, Tensor? weight_scale, Tensor? bias, float factor, "
         "ScalarType dtype) -> Tensor")

}  // namespace
}  // namespace kw::torch
