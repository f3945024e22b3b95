// SPDX-License-Identifier: MIT
#include "core/elementwise.h"

#include "core/checks.h"
#include "cpu/pages.h"
#include "cpu/pool.h"

namespace kw {
namespace {

constexpr int64_t kVector = KW_ELEMENTWISE_VECTOR, kWaves = 16;

kw_status check(const Elementwise& op, int32_t device, const ElementwiseCall& call, int inputs, int outputs) {
  KW_TRY(check_device(op.function, device));
  KW_TRY(check_float_type(op.function, call.dtype));
  KW_TRY(check_rows(op.function, call.rows, call.cols));
  if (call.rows == 0 || call.cols == 0) return KW_OK;
  const unsigned size = size_of(call.dtype);
  for (int i = 0; i < inputs; ++i) KW_TRY(check_pointer(op.function, op.inputs[i], call.in[i].data, size));
  for (int i = 0; i < outputs; ++i) {
    KW_TRY(check_pointer(op.function, op.outputs[i], call.out[i].data, size));
    KW_TRY(check_apart(op.function, op.outputs[i], call.out[i].stride, call.rows, call.cols));
  }
  return KW_OK;
}

// One row, where no tensor has gaps.
void join_rows(ElementwiseCall* call, int inputs, int outputs) {
  for (int i = 0; i < inputs; ++i)
    if (call->in[i].stride != call->cols) return;
  for (int i = 0; i < outputs; ++i)
    if (call->out[i].stride != call->cols) return;
  call->cols *= call->rows;
  call->rows = 1;
}

kw_status run_on_device(Elementwise& op, int32_t device, void* stream, const ElementwiseCall& call, int inputs,
                        int outputs) {
  Context context;
  KW_TRY(module_context(op.module, device, &context));
  const int64_t size = size_of(call.dtype);
  KwElementwiseParams p = {};
  bool vectors = true;
  const auto lies = [&](const void* data, int64_t stride) {
    vectors = vectors && reinterpret_cast<uintptr_t>(data) % kVector == 0;
    vectors = vectors && (call.rows == 1 || stride * size % kVector == 0);
    return stride * size;
  };
  for (int i = 0; i < inputs; ++i) {
    p.in[i] = static_cast<const char*>(call.in[i].data);
    p.in_pitch[i] = lies(p.in[i], call.in[i].stride);
  }
  for (int i = 0; i < outputs; ++i) {
    p.out[i] = static_cast<char*>(call.out[i].data);
    p.out_pitch[i] = lies(p.out[i], call.out[i].stride);
  }
  for (int i = 0; i < op.numbers; ++i) p.number[i] = call.number[i];
  p.rows = call.rows;
  p.units = vectors ? call.cols * size / kVector : 0;
  p.elements = call.cols - p.units * (kVector / size);
  const int64_t threads = call.rows * (p.units > p.elements ? p.units : p.elements);
  const int64_t blocks = ratio_up(threads, KW_ELEMENTWISE_THREADS), most = context.device->multiprocessors * kWaves;
  Launch how{static_cast<uint32_t>(blocks < most ? blocks : most), KW_ELEMENTWISE_THREADS};
  how.overlap = true;
  return launch(context, op.kernels[call.dtype], how, stream, &p, sizeof p);
}

kw_status run_on_cpu(const Elementwise& op, const ElementwiseCall& call, int inputs, int outputs) {
  constexpr int64_t kLeast = 32;  // units that are worth another thread
  const int64_t size = size_of(call.dtype);
  for (int i = 0; i < outputs; ++i) {
    bool fresh = true;
    for (int j = 0; j < inputs; ++j) fresh = fresh && call.out[i].data != call.in[j].data;
    if (fresh) cpu::will_write(call.out[i].data, call.rows, call.out[i].stride, call.cols * size, size);
  }
  const int64_t each = ratio_up(call.cols, cpu::kElementwiseUnit),
                least = call.cols < cpu::kElementwiseUnit ? kLeast * cpu::kElementwiseUnit / call.cols : kLeast;
  cpu::parallel_for(call.rows * each, least, op.cpu(), &call);
  return KW_OK;
}

}  // namespace

kw_status run_elementwise(Elementwise& op, int32_t device, void* stream, ElementwiseCall call) {
  int inputs = 0, outputs = 0;
  while (inputs < KW_ELEMENTWISE_INPUTS && op.inputs[inputs] != nullptr) ++inputs;
  while (outputs < KW_ELEMENTWISE_OUTPUTS && op.outputs[outputs] != nullptr) ++outputs;
  KW_TRY(check(op, device, call, inputs, outputs));
  if (call.rows == 0 || call.cols == 0) return KW_OK;
  join_rows(&call, inputs, outputs);
  if (device == KW_CPU) return op.cpu != nullptr ? run_on_cpu(op, call, inputs, outputs) : refuse_cpu(op.function);
  return run_on_device(op, device, stream, call, inputs, outputs);
}

}  // namespace kw
