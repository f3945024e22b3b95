// SPDX-License-Identifier: MIT
// A call of a linear layer: where a kernel of the library is the fast way it is taken; torch's own product is it
// elsewhere.
#pragma once

#include "core/error.h"
#include "core/sizes.h"
#include "core/tensor.h"
#include "ops/linear/api/linear.h"
#include "ops/linear/host/plan.h"
#include "torch/operator.h"

namespace kw::torch {

// `parts`: results of so many rows of the weight make one; `least`: the first activation that a kernel is for.
template <typename Fits, typename Run>
kw_status linear_or_elsewhere(Call& call, const char* name, int64_t parts, int least, Fits fits, Run run) {
  static constexpr const char* kActivations[] = {"none", "relu", "squared_relu", "silu", "gelu", "gelu_tanh"};
  const kw_tensor &x = *call.tensor(0), &weight = *call.tensor(1), *y = nullptr;
  const int activation = call.one_of(3, kActivations, KW_GELU_TANH + 1);
  if (x.device == KW_CPU || activation < least || weight.dims != 2 || x.dims < 1 || x.dims > kMostDims ||
      x.dtype == KW_FLOAT64)
    return kElsewhere;
  TensorRows rows, columns;
  KW_TRY(rows_of(name, "x", x, &rows));
  KW_TRY(rows_of(name, "weight", weight, &columns));
  const int64_t n = columns.count / parts;
  if (rows.cols != columns.cols || rows.count == 0 || rows.cols == 0 || n == 0 || columns.count % parts != 0)
    return kElsewhere;
  const int64_t together = static_cast<int64_t>(reinterpret_cast<uintptr_t>(x.data)) |
                           static_cast<int64_t>(reinterpret_cast<uintptr_t>(weight.data)) | rows.stride * 2 |
                           columns.stride * 2;
  int32_t yes = 0;
  KW_TRY(fits(x.device, rows.count, n, rows.cols, together % linear_plan::kAlignment != 0 ? 1 : linear_plan::kAlignment,
              x.dtype, &yes));
  if (yes == 0) return kElsewhere;
  KW_TRY(call.make_rows(x, n, x.dtype, &y));
  return run(call.stream(), y, &x, &weight, call.tensor(2), activation);
}

}  // namespace kw::torch
