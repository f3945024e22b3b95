// SPDX-License-Identifier: MIT
// kw_quantize_rows_fp8: checks its arguments, then runs on the CPU or launches csrc/ops/fp8/quantize_rows_fp8.cu.
#include "ops/fp8/host/quantize_rows_fp8.h"

#include "core/checks.h"
#include "core/launch.h"
#include "ops/fp8/api/quantize_rows_fp8.h"
#include "ops/fp8/params.h"
#include "ops/int8/host/rows_plan.h"

namespace kw {
namespace {

using rows_plan::aligned;

constexpr int64_t kMaxRows = int64_t{1} << 30;

#define KW_TYPES(name) {{name "_float32"}, {name "_float16"}, {name "_bfloat16"}}

Module module{"quantize_rows_fp8"};
Kernel by_few[3] = KW_TYPES("quantize_rows_fp8_few"), by_blocks[3] = KW_TYPES("quantize_rows_fp8_block");

kw_status check(const char* name, int32_t device, const QuantizeRowsFp8& a) {
  KW_TRY(check_device(name, device));
  KW_TRY(check_float_type(name, a.dtype));
  KW_TRY(check_rows(name, a.rows, a.cols));
  if (a.rows == 0) return KW_OK;
  KW_TRY(check_pointer(name, "scale", a.scale, 4));
  if (a.cols == 0) return KW_OK;
  KW_TRY(check_pointer(name, "codes", a.codes, 1));
  KW_TRY(check_apart(name, "codes", a.codes_stride, a.rows, a.cols));
  return check_pointer(name, "x", a.x, size_of(a.dtype));
}

KwQuantizeRowsFp8Params params_of(const QuantizeRowsFp8& a) {
  const int64_t size = size_of(a.dtype), unit = 16 / size;
  KwQuantizeRowsFp8Params p{};
  p.codes = reinterpret_cast<char*>(a.codes);
  p.scale = reinterpret_cast<char*>(a.scale);
  p.x = static_cast<const char*>(a.x);
  p.rows = a.rows, p.cols = a.cols;
  p.x_pitch = a.x_stride * size, p.codes_pitch = a.codes_stride;
  p.vectors = a.cols % unit == 0 && aligned(a.x, p.x_pitch, a.rows, 16) &&
              aligned(a.codes, p.codes_pitch, a.rows, static_cast<uintptr_t>(unit));
  return p;
}

// A launch counts its blocks in 31 bits: of more rows, so many at a time.
kw_status run_on_device(int32_t device, void* stream, const QuantizeRowsFp8& a) {
  Context context;
  KW_TRY(module_context(module, device, &context));
  const int64_t size = size_of(a.dtype);
  for (int64_t first = 0; first < a.rows; first += kMaxRows) {
    QuantizeRowsFp8 part = a;
    part.rows = a.rows - first < kMaxRows ? a.rows - first : kMaxRows;
    part.codes = a.codes + first * a.codes_stride;
    part.scale = a.scale + first;
    part.x = static_cast<const char*>(a.x) + first * a.x_stride * size;
    rows_plan::Plan plan = rows_plan::plan_for(part.rows, a.cols, size_of(a.dtype), *context.device);
    if (plan.way == rows_plan::Way::kWarps) plan.blocks = part.rows, plan.threads = 32;
    const KwQuantizeRowsFp8Params p = params_of(part);
    Launch how{static_cast<uint32_t>(plan.blocks), static_cast<uint32_t>(plan.threads)};
    how.overlap = true;
    KW_TRY(launch(context, plan.way == rows_plan::Way::kFew ? by_few[a.dtype] : by_blocks[a.dtype], how, stream, &p,
                  sizeof p));
  }
  return KW_OK;
}

}  // namespace
}  // namespace kw

KW_API kw_status kw_quantize_rows_fp8(int32_t device, void* stream, void* codes, int64_t codes_stride, float* scale,
                                      const void* x, int64_t x_stride, int64_t rows, int64_t cols, int32_t dtype) {
  const kw::QuantizeRowsFp8 a{static_cast<uint8_t*>(codes), scale, x, codes_stride, x_stride, rows, cols, dtype};
  KW_TRY(kw::check("kw_quantize_rows_fp8", device, a));
  if (rows == 0) return KW_OK;
  return device == KW_CPU ? kw::cpu::quantize_rows_fp8(a) : kw::run_on_device(device, stream, a);
}
