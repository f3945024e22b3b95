// SPDX-License-Identifier: MIT
// kw_swiglu and kw_swiglu_backward: check their arguments, then run on the CPU or plan launches of
// csrc/ops/gated/swiglu.cu.
#include "ops/gated/host/swiglu.h"

#include "ops/gated/api/swiglu.h"

#include "core/checks.h"
#include "core/launch.h"
#include "ops/gated/host/plan.h"
#include "ops/gated/host/tensors.h"
#include "ops/gated/params.h"

namespace kw {
namespace {

using namespace swiglu_plan;

#define KW_NAMES(type)                                                                                            \
  {                                                                                                               \
    {"swiglu_flat_" type}, {"swiglu_flat_backward_" type}, {"swiglu_rows_" type}, {"swiglu_rows_backward_" type}, \
        {"swiglu_shifted_" type}, {"swiglu_shifted_backward_" type}, {"swiglu_element_" type}, {                  \
      "swiglu_element_backward_" type                                                                             \
    }                                                                                                             \
  }

Module module{"swiglu"};
Kernel kernels[3][kShapes] = {KW_NAMES("float32"), KW_NAMES("float16"), KW_NAMES("bfloat16")};

struct Tensor {
  const char* name;
  const void* data;
  int64_t stride;
  bool written;
};

kw_status check_tensor(const char* function, const Swiglu& a, const Tensor& t) {
  KW_TRY(check_pointer(function, t.name, t.data, size_of(a.dtype)));
  return t.written ? check_apart(function, t.name, t.stride, a.rows, a.cols) : KW_OK;
}

kw_status check(const char* function, int32_t device, const Swiglu& a) {
  KW_TRY(check_device(function, device));
  KW_TRY(check_float_type(function, a.dtype));
  KW_TRY(check_rows(function, a.rows, a.cols));
  if (a.rows == 0 || a.cols == 0) return KW_OK;
  KW_TRY(check_tensor(function, a, {"gate", a.gate, a.gate_stride, false}));
  KW_TRY(check_tensor(function, a, {"up", a.up, a.up_stride, false}));
  KW_TRY(check_tensor(function, a, {a.backward ? "dgate" : "y", a.out, a.out_stride, true}));
  if (!a.backward) return KW_OK;
  KW_TRY(check_tensor(function, a, {"dy", a.dy, a.dy_stride, false}));
  return check_tensor(function, a, {"dup", a.up_out, a.up_out_stride, true});
}

// Rows that follow each other without a gap in every tensor are one.
Swiglu flattened(Swiglu a) {
  const bool gaps = a.gate_stride != a.cols || a.up_stride != a.cols || a.out_stride != a.cols ||
                    (a.backward && (a.dy_stride != a.cols || a.up_out_stride != a.cols));
  if (gaps) return a;
  a.cols *= a.rows;
  a.rows = 1;
  return a;
}

// The same from a later row and column on; what is nullptr stays so.
Swiglu later(Swiglu a, int64_t row, int64_t column) {
  const int64_t size = size_of(a.dtype);
  const auto offset = [&](const void* data, int64_t stride) { return data ? (row * stride + column) * size : 0; };
  a.gate = static_cast<const char*>(a.gate) + offset(a.gate, a.gate_stride);
  a.up = static_cast<const char*>(a.up) + offset(a.up, a.up_stride);
  a.dy = static_cast<const char*>(a.dy) + offset(a.dy, a.dy_stride);
  a.out = static_cast<char*>(a.out) + offset(a.out, a.out_stride);
  a.up_out = static_cast<char*>(a.up_out) + offset(a.up_out, a.up_out_stride);
  a.rows -= row;
  a.cols -= column;
  return a;
}

KwSwigluParams params_of(const Swiglu& a, const Device& device, const Plan& plan) {
  const int64_t size = size_of(a.dtype), count = plan.unit_bytes / size;
  const Swiglu units = later(a, 0, -plan.skip);
  KwSwigluParams p{};
  p.gate = static_cast<const char*>(units.gate);
  p.up = static_cast<const char*>(units.up);
  p.dy = static_cast<const char*>(units.dy);
  p.out = static_cast<char*>(units.out);
  p.up_out = static_cast<char*>(units.up_out);
  p.gate_pitch = a.gate_stride * size;
  p.up_pitch = a.up_stride * size;
  p.dy_pitch = a.dy_stride * size;
  p.out_pitch = a.out_stride * size;
  p.up_out_pitch = a.up_out_stride * size;
  p.cols = a.cols;
  p.units = static_cast<unsigned>(plan.row_units * a.rows);
  p.row_units = static_cast<unsigned>(plan.row_units);
  p.first_whole = plan.skip > 0 ? 1 : 0;
  p.end_whole = static_cast<unsigned>((plan.skip + a.cols) / count);
  p.skip = static_cast<unsigned>(plan.skip);
  p.shift = 31;
  while (int64_t{1} << (p.shift - 31) < plan.row_units) ++p.shift;
  p.magic = static_cast<unsigned>(ratio_up(int64_t{1} << p.shift, plan.row_units));
  p.slots = plan.slots;
  p.large = a.rows * a.cols * size * (a.backward ? 5 : 3) > int64_t{4} * device.l2;
  return p;
}

// A launch counts its units in 31 bits; of more, each half is a launch.
kw_status run_on_device(const Context& context, void* stream, const Swiglu& a) {
  const Plan plan = plan_for(a, *context.device);
  const int64_t units = plan.row_units * a.rows;
  if (units >= kMaxUnits) {
    const int64_t rows = a.rows / 2, cols = rows > 0 ? 0 : a.cols / 2 / kVector * kVector;
    Swiglu first = a;
    (rows > 0 ? first.rows : first.cols) = rows > 0 ? rows : cols;
    KW_TRY(run_on_device(context, stream, first));
    return run_on_device(context, stream, later(a, rows, cols));
  }
  Launch how;
  how.grid = static_cast<uint32_t>(ratio_up(units, int64_t{plan.threads} * plan.slots));
  how.block = static_cast<uint32_t>(plan.threads);
  how.overlap = true;
  const KwSwigluParams params = params_of(a, *context.device, plan);
  return launch(context, kernels[a.dtype][plan.shape], how, stream, &params, sizeof params);
}

kw_status run(const char* function, int32_t device, void* stream, const Swiglu& args) {
  KW_TRY(check(function, device, args));
  if (args.rows == 0 || args.cols == 0) return KW_OK;
  if (device == KW_CPU) return cpu::swiglu(flattened(args));
  Context context;
  KW_TRY(module_context(module, device, &context));
  return run_on_device(context, stream, flattened(args));
}

kw_status run_tensors(const char* function, void* stream, bool backward, const SwigluTensors& tensors) {
  Swiglu args{};
  args.backward = backward;
  int32_t device = KW_CPU;
  KW_TRY(read_swiglu(function, tensors, &args, &device));
  return run(function, device, stream, args);
}

}  // namespace
}  // namespace kw

KW_API kw_status kw_swiglu(int32_t device, void* stream, void* y, int64_t y_stride, const void* gate,
                           int64_t gate_stride, const void* up, int64_t up_stride, int64_t rows, int64_t cols,
                           int32_t dtype) {
  const kw::Swiglu args{y,           nullptr,   gate, up,   nullptr, y_stride, 0,
                        gate_stride, up_stride, 0,    rows, cols,    dtype,    false};
  return kw::run("kw_swiglu", device, stream, args);
}

KW_API kw_status kw_swiglu_backward(int32_t device, void* stream, void* dgate, int64_t dgate_stride, void* dup,
                                    int64_t dup_stride, const void* dy, int64_t dy_stride, const void* gate,
                                    int64_t gate_stride, const void* up, int64_t up_stride, int64_t rows, int64_t cols,
                                    int32_t dtype) {
  const kw::Swiglu args{dgate,       dup,       gate,      up,   dy,   dgate_stride, dup_stride,
                        gate_stride, up_stride, dy_stride, rows, cols, dtype,        true};
  return kw::run("kw_swiglu_backward", device, stream, args);
}

KW_API kw_status kw_swiglu_tensors(void* stream, const kw_tensor* y, const kw_tensor* gate, const kw_tensor* up) {
  return kw::run_tensors("kw_swiglu_tensors", stream, false, {y, nullptr, nullptr, gate, up});
}

KW_API kw_status kw_swiglu_backward_tensors(void* stream, const kw_tensor* dgate, const kw_tensor* dup,
                                            const kw_tensor* dy, const kw_tensor* gate, const kw_tensor* up) {
  return kw::run_tensors("kw_swiglu_backward_tensors", stream, true, {dgate, dup, dy, gate, up});
}
