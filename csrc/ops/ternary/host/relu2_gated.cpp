// SPDX-License-Identifier: MIT
// kw_relu2_gated and kw_relu2_gated_backward: check their arguments, then run on the CPU or launch
// csrc/ops/ternary/relu2_gated.cu.
#include "ops/ternary/api/relu2_gated.h"

#include "core/launch.h"
#include "ops/ternary/host/ternary.h"
#include "ops/ternary/params.h"

namespace kw {
namespace {

#define KW_NAMES(name) {{name "_float32"}, {name "_float16"}, {name "_bfloat16"}}

constexpr uint32_t kThreads = 256;
constexpr int64_t kVector = 16, kWaves = 16;

Module module{"relu2_gated"};
Kernel kernels[2][2][3] = {{KW_NAMES("relu2_gated_elements"), KW_NAMES("relu2_gated_elements_backward")},
                           {KW_NAMES("relu2_gated_units"), KW_NAMES("relu2_gated_units_backward")}};

struct Tensor {
  const char* name;
  const void* data;
  int64_t stride;
  bool written;
};

kw_status check(const char* name, int32_t device, const Relu2Gated& a, const Tensor* tensors, int count) {
  KW_TRY(check_device(name, device));
  KW_TRY(check_float_type(name, a.dtype));
  KW_TRY(check_rows(name, a.rows, a.cols));
  if (a.rows == 0 || a.cols == 0) return KW_OK;
  for (int i = 0; i < count; ++i) {
    KW_TRY(check_pointer(name, tensors[i].name, tensors[i].data, size_of(a.dtype)));
    if (tensors[i].written) KW_TRY(check_apart(name, tensors[i].name, tensors[i].stride, a.rows, a.cols));
  }
  return KW_OK;
}

bool vectors(const Relu2Gated& a, const Tensor* tensors, int count) {
  const int64_t size = size_of(a.dtype);
  for (int i = 0; i < count; ++i) {
    if (reinterpret_cast<uintptr_t>(tensors[i].data) % kVector != 0) return false;
    if (a.rows > 1 && tensors[i].stride * size % kVector != 0) return false;
  }
  return a.cols * size % kVector == 0;
}

kw_status run_on_device(int32_t device, void* stream, const Relu2Gated& a, bool wide) {
  Context context;
  KW_TRY(module_context(module, device, &context));
  const int64_t size = size_of(a.dtype), units = wide ? a.cols * size / kVector : a.cols;
  const KwRelu2GatedParams p{static_cast<const char*>(a.gate),
                             static_cast<const char*>(a.up),
                             static_cast<const char*>(a.dy),
                             static_cast<char*>(a.out),
                             static_cast<char*>(a.up_out),
                             a.gate_stride * size,
                             a.up_stride * size,
                             a.dy_stride * size,
                             a.out_stride * size,
                             a.up_out_stride * size,
                             a.rows,
                             a.cols,
                             units};
  const int64_t blocks = ratio_up(a.rows * units, kThreads), most = context.device->multiprocessors * kWaves;
  Launch how{static_cast<uint32_t>(blocks < most ? blocks : most), kThreads};
  how.overlap = true;
  return launch(context, kernels[wide][a.backward][a.dtype], how, stream, &p, sizeof p);
}

kw_status run(const char* name, int32_t device, void* stream, Relu2Gated a) {
  const Tensor tensors[] = {{"gate", a.gate, a.gate_stride, false},
                            {"up", a.up, a.up_stride, false},
                            {a.backward ? "dgate" : "y", a.out, a.out_stride, true},
                            {"dup", a.up_out, a.up_out_stride, true},
                            {"dy", a.dy, a.dy_stride, false}};
  const int count = a.backward ? 5 : 3;
  KW_TRY(check(name, device, a, tensors, count));
  if (a.rows == 0 || a.cols == 0) return KW_OK;
  bool gaps = false;
  for (int i = 0; i < count; ++i) gaps = gaps || tensors[i].stride != a.cols;
  if (!gaps) a.cols *= a.rows, a.rows = 1;
  return device == KW_CPU ? cpu::relu2_gated(a) : run_on_device(device, stream, a, vectors(a, tensors, count));
}

}  // namespace
}  // namespace kw

KW_API kw_status kw_relu2_gated(int32_t device, void* stream, void* y, int64_t y_stride, const void* gate,
                                int64_t gate_stride, const void* up, int64_t up_stride, int64_t rows, int64_t cols,
                                int32_t dtype) {
  return kw::run("kw_relu2_gated", device, stream,
                 {gate, up, nullptr, y, nullptr, gate_stride, up_stride, 0, y_stride, 0, rows, cols, dtype, false});
}

KW_API kw_status kw_relu2_gated_backward(int32_t device, void* stream, void* dgate, int64_t dgate_stride, void* dup,
                                         int64_t dup_stride, const void* dy, int64_t dy_stride, const void* gate,
                                         int64_t gate_stride, const void* up, int64_t up_stride, int64_t rows,
                                         int64_t cols, int32_t dtype) {
  return kw::run(
      "kw_relu2_gated_backward", device, stream,
      {gate, up, dy, dgate, dup, gate_stride, up_stride, dy_stride, dgate_stride, dup_stride, rows, cols, dtype, true});
}
