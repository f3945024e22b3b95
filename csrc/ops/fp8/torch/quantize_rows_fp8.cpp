// SPDX-License-Identifier: MIT
#include "ops/fp8/api/quantize_rows_fp8.h"

#include "core/error.h"
#include "core/tensor.h"
#include "torch/operator.h"

namespace kw::torch {
namespace {

kw_status quantize_rows(Call& call) {
  const kw_tensor &x = *call.tensor(0), *codes = nullptr, *scale = nullptr;
  if (x.dtype < KW_FLOAT32 || x.dtype > KW_BFLOAT16) return kElsewhere;
  TensorRows rows;
  KW_TRY(rows_of("quantize_rows_fp8", "x", x, &rows));
  KW_TRY(call.make(x.dims, x.sizes, KW_FLOAT8_E4M3FN, &codes));
  KW_TRY(call.make(x.dims - 1, x.sizes, KW_FLOAT32, &scale));
  return kw_quantize_rows_fp8(x.device, call.stream(), codes->data, rows.cols, static_cast<float*>(scale->data), x.data,
                              rows.stride, rows.count, rows.cols, x.dtype);
}

KW_TORCH(quantize_rows, "quantize_rows_fp8", "(Tensor x) -> (Tensor, Tensor)")

}  // namespace
}  // namespace kw::torch
