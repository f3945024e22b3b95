// SPDX-License-Identifier: MIT
#include "torch/elementwise.h"

#include "core/tensor.h"

namespace kw::torch {

kw_status call_elementwise(Call& call, Elementwise& op) {
  const kw_tensor& first = *call.tensor(0);
  ElementwiseCall given = {};
  int place = 0;
  int64_t cols = 0;
  for (; place < KW_ELEMENTWISE_INPUTS && op.inputs[place] != nullptr; ++place) {
    const kw_tensor& tensor = *call.tensor(place);
    TensorRows rows;
    if (place == 0)
      KW_TRY(rows_of(op.function, op.inputs[place], tensor, &rows));
    else
      KW_TRY(rows_beside(op.function, op.inputs[place], tensor, first, cols, &rows));
    cols = rows.cols;
    given.rows = rows.count;
    given.in[place] = {tensor.data, rows.stride};
  }
  for (int i = 0; i < KW_ELEMENTWISE_OUTPUTS && op.outputs[i] != nullptr; ++i) {
    const kw_tensor* made = nullptr;
    KW_TRY(call.make_like(first, &made));
    given.out[i] = {made->data, cols};
  }
  for (int i = 0; i < op.numbers; ++i) given.number[i] = static_cast<float>(call.real(place + i));
  given.cols = cols;
  given.dtype = first.dtype;
  return run_elementwise(op, first.device, call.stream(), given);
}

}  // namespace kw::torch
