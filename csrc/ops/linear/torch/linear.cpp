// SPDX-License-Identifier: MIT
#include "ops/linear/api/linear.h"

#include "core/error.h"
#include "core/sizes.h"
#include "core/tensor.h"
#include "ops/linear/host/plan.h"
#include "torch/operator.h"

namespace kw::torch {
namespace {

constexpr const char* kActivations[] = {"none", "relu", "squared_relu", "silu", "gelu", "gelu_tanh"};

// Where a kernel of the library is the fast way; torch's own product is it elsewhere.
kw_status linear(Call& call) {
  constexpr const char* kName = "linear";
  const kw_tensor &x = *call.tensor(0), &weight = *call.tensor(1), *y = nullptr;
  const int activation = call.one_of(3, kActivations, KW_GELU_TANH + 1);
  if (x.device == KW_CPU || activation <= KW_NO_ACTIVATION || weight.dims != 2 || x.dims < 1 || x.dims > kMostDims ||
      x.dtype == KW_FLOAT64)
    return kElsewhere;
  TensorRows rows, columns;
  KW_TRY(rows_of(kName, "x", x, &rows));
  KW_TRY(rows_of(kName, "weight", weight, &columns));
  if (rows.cols != columns.cols || rows.count == 0 || rows.cols == 0 || columns.count == 0) return kElsewhere;
  const int64_t together = static_cast<int64_t>(reinterpret_cast<uintptr_t>(x.data)) |
                           static_cast<int64_t>(reinterpret_cast<uintptr_t>(weight.data)) | rows.stride * 2 |
                           columns.stride * 2;
  int32_t fits = 0;
  KW_TRY(kw_linear_fits(x.device, rows.count, columns.count, rows.cols,
                        together % linear_plan::kAlignment != 0 ? 1 : linear_plan::kAlignment, x.dtype, &fits));
  if (fits == 0) return kElsewhere;
  int64_t sizes[kMostDims];
  for (int64_t i = 0; i < x.dims; ++i) sizes[i] = x.sizes[i];
  sizes[x.dims - 1] = columns.count;
  KW_TRY(call.make(x.dims, sizes, x.dtype, &y));
  return kw_linear_tensors(call.stream(), y, &x, &weight, call.tensor(2), activation);
}

KW_TORCH(linear, "linear", "(Tensor x, Tensor weight, Tensor? bias, str activation) -> Tensor")

}  // namespace
}  // namespace kw::torch
