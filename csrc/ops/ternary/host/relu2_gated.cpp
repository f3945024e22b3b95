// SPDX-License-Identifier: MIT
// kw_relu2_gated and kw_relu2_gated_backward: csrc/ops/ternary/relu2_gated.cu, or the CPU.
#include "ops/ternary/api/relu2_gated.h"

#include "torch/elementwise.h"

namespace kw {

static Module relu2_gated_module{"relu2_gated"};
KW_ELEMENTWISE_OF(relu2_gated, relu2_gated_module, ({"gate", "up"}), ({"y"}), 0)
KW_ELEMENTWISE_OF(relu2_gated_backward, relu2_gated_module, ({"dy", "gate", "up"}), ({"dgate", "dup"}), 0)

}  // namespace kw

KW_API kw_status kw_relu2_gated(int32_t device, void* stream, void* y, int64_t y_stride, const void* gate,
                                int64_t gate_stride, const void* up, int64_t up_stride, int64_t rows, int64_t cols,
                                int32_t dtype) {
  return run_elementwise(kw::relu2_gated, device, stream,
                         {{{gate, gate_stride}, {up, up_stride}}, {{y, y_stride}}, rows, cols, dtype, {}});
}

KW_API kw_status kw_relu2_gated_backward(int32_t device, void* stream, void* dgate, int64_t dgate_stride, void* dup,
                                         int64_t dup_stride, const void* dy, int64_t dy_stride, const void* gate,
                                         int64_t gate_stride, const void* up, int64_t up_stride, int64_t rows,
                                         int64_t cols, int32_t dtype) {
  return run_elementwise(kw::relu2_gated_backward, device, stream,
                         {{{dy, dy_stride}, {gate, gate_stride}, {up, up_stride}},
                          {{dgate, dgate_stride}, {dup, dup_stride}},
                          rows,
                          cols,
                          dtype,
                          {}});
}

KW_TORCH_ELEMENTWISE(relu2_gated, "relu2_gated", "(Tensor gate, Tensor up) -> Tensor")
KW_TORCH_ELEMENTWISE(relu2_gated_backward, "relu2_gated.backward",
                     "(Tensor grad, Tensor gate, Tensor up) -> (Tensor, Tensor)")
