// SPDX-License-Identifier: MIT
// kw_quantize_rows_int8: checks its arguments, then runs on the CPU or launches csrc/ops/int8/quantize_rows_int8.cu.
#include "ops/int8/api/quantize_rows_int8.h"

#include "core/checks.h"
#include "core/launch.h"
#include "ops/int8/host/quantize_rows_int8.h"
#include "ops/int8/host/rows_checks.h"
#include "ops/int8/host/rows_plan.h"
#include "ops/int8/params.h"

namespace kw {
namespace {

using rows_plan::aligned;

constexpr int64_t kThreads = KW_QUANTIZE_ROWS_THREADS, kMaxRows = int64_t{1} << 30;

#define KW_TYPES(name) {{name "_float32"}, {name "_float16"}, {name "_bfloat16"}}

Module module{"quantize_rows_int8"};
Kernel kernels[3][3] = {KW_TYPES("quantize_rows_int8_warp"), KW_TYPES("quantize_rows_int8_few"),
                        KW_TYPES("quantize_rows_int8_block")};
Kernel clear_kernel{"quantize_rows_int8_clear"};

kw_status check_numbers(const char* name, const QuantizeRows& a) {
  if (!(a.threshold >= 0.0f && a.threshold <= 3e38f) || (a.outliers != nullptr && a.threshold == 0.0f))
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "%s: threshold is %g; it must be a positive float32 where outliers are wanted, else 0", name,
                (double)a.threshold);
  if (a.threshold > 0.0f && (a.sums != nullptr || a.eps >= 0.0f))
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: a threshold cannot be combined with %s; leave one of them out", name,
                a.sums != nullptr ? "sums" : "a norm (eps)");
  return rows_checks::check_norm(name, a.weight, a.cols, a.dtype, a.weight_dtype, a.clamp, a.eps);
}

kw_status check(const char* name, int32_t device, const QuantizeRows& a) {
  KW_TRY(check_device(name, device));
  KW_TRY(check_float_type(name, a.dtype));
  KW_TRY(check_rows(name, a.rows, a.cols));
  KW_TRY(check_numbers(name, a));
  if (a.threshold > 0.0f && a.cols > 0) KW_TRY(check_pointer(name, "outliers", a.outliers, 1));
  if (a.rows == 0) return KW_OK;
  KW_TRY(check_pointer(name, "absmax", a.absmax, 4));
  if (a.sums != nullptr) KW_TRY(check_pointer(name, "sums", a.sums, 4));
  if (a.cols == 0) return KW_OK;
  KW_TRY(check_pointer(name, "codes", a.codes, 1));
  KW_TRY(check_apart(name, "codes", a.codes_stride, a.rows, a.cols));
  if (a.weight != nullptr) KW_TRY(check_pointer(name, "weight", a.weight, size_of(a.weight_dtype)));
  return check_pointer(name, "x", a.x, size_of(a.dtype));
}

KwQuantizeRowsParams params_of(const QuantizeRows& a, int phase) {
  const int64_t size = size_of(a.dtype), unit = 16 / size;
  KwQuantizeRowsParams p{};
  p.codes = reinterpret_cast<char*>(a.codes);
  p.absmax = reinterpret_cast<char*>(a.absmax);
  p.sums = reinterpret_cast<char*>(a.sums);
  p.outliers = reinterpret_cast<char*>(a.outliers);
  p.x = static_cast<const char*>(a.x);
  p.weight = static_cast<const char*>(a.weight);
  p.rows = a.rows, p.cols = a.cols;
  p.x_pitch = a.x_stride * size, p.codes_pitch = a.codes_stride;
  p.clamp = a.clamp, p.threshold = a.threshold, p.eps = a.eps;
  p.vectors = a.cols % unit == 0 && aligned(a.x, p.x_pitch, a.rows, 16) &&
              aligned(a.codes, p.codes_pitch, a.rows, static_cast<uintptr_t>(unit)) &&
              aligned(a.outliers, 0, 1, static_cast<uintptr_t>(unit));
  p.weight_vectors = p.vectors && a.weight_dtype == a.dtype && aligned(a.weight, 0, 1, 16);
  p.weight_is_float = a.weight_dtype == KW_FLOAT32;
  p.phase = phase;
  return p;
}

kw_status queue(const Context& context, Kernel& kernel, int64_t blocks, int64_t threads, void* stream,
                const KwQuantizeRowsParams& p) {
  Launch how{static_cast<uint32_t>(blocks), static_cast<uint32_t>(threads)};
  how.overlap = true;
  return launch(context, kernel, how, stream, &p, sizeof p);
}

// A launch counts its blocks in 31 bits: of more rows, so many at a time.
kw_status queue_rows(const Context& context, void* stream, const QuantizeRows& a, int phase) {
  const int64_t size = size_of(a.dtype);
  for (int64_t first = 0; first < a.rows; first += kMaxRows) {
    QuantizeRows part = a;
    part.rows = a.rows - first < kMaxRows ? a.rows - first : kMaxRows;
    part.codes = a.codes + first * a.codes_stride;
    part.absmax = a.absmax + first;
    part.sums = a.sums == nullptr ? nullptr : a.sums + first;
    part.x = static_cast<const char*>(a.x) + first * a.x_stride * size;
    const rows_plan::Plan plan = rows_plan::plan_for(part.rows, a.cols, size_of(a.dtype), *context.device);
    Kernel& kernel = kernels[static_cast<int>(plan.way)][a.dtype];
    KW_TRY(queue(context, kernel, plan.blocks, plan.threads, stream, params_of(part, phase)));
  }
  return KW_OK;
}

kw_status run_on_device(int32_t device, void* stream, const QuantizeRows& a) {
  Context context;
  KW_TRY(module_context(module, device, &context));
  if (a.threshold > 0.0f && a.cols > 0) {
    const KwQuantizeRowsParams p = params_of(a, KW_QUANTIZE_ROWS_ALL);
    KW_TRY(queue(context, clear_kernel, ratio_up(a.cols, kThreads), kThreads, stream, p));
  }
  if (a.rows == 0) return KW_OK;
  const bool twice = a.threshold > 0.0f && a.rows > 1;  // outliers of one row are all that there are in their columns
  if (!twice) return queue_rows(context, stream, a, KW_QUANTIZE_ROWS_ALL);
  KW_TRY(queue_rows(context, stream, a, KW_QUANTIZE_ROWS_MEASURE));
  return queue_rows(context, stream, a, KW_QUANTIZE_ROWS_WRITE);
}

}  // namespace

kw_status quantize_rows_int8(const char* function, int32_t device, void* stream, const QuantizeRows& a) {
  KW_TRY(check(function, device, a));
  if (a.rows == 0 && (a.threshold == 0.0f || a.cols == 0)) return KW_OK;
  return device == KW_CPU ? cpu::quantize_rows_int8(a) : run_on_device(device, stream, a);
}

}  // namespace kw

KW_API kw_status kw_quantize_rows_int8(int32_t device, void* stream, int8_t* codes, int64_t codes_stride, float* absmax,
                                       int32_t* sums, uint8_t* outliers, const void* x, int64_t x_stride,
                                       const void* weight, int64_t rows, int64_t cols, int32_t dtype,
                                       int32_t weight_dtype, double clamp, double threshold, double eps) {
  const kw::QuantizeRows args{codes,
                              absmax,
                              sums,
                              outliers,
                              x,
                              weight,
                              codes_stride,
                              x_stride,
                              rows,
                              cols,
                              dtype,
                              weight_dtype,
                              static_cast<float>(clamp),
                              static_cast<float>(threshold),
                              static_cast<float>(eps)};
  return kw::quantize_rows_int8("kw_quantize_rows_int8", device, stream, args);
}
