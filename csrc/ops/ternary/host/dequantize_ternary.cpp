// SPDX-License-Identifier: MIT
// kw_dequantize_ternary: checks its arguments, then runs on the CPU or launches csrc/ops/ternary/quantize_ternary.cu.
#include "ops/ternary/api/dequantize_ternary.h"

#include "ops/ternary/host/codes.h"

namespace kw {
namespace {

Module module{"ternary_weights"};
Kernel kernels[3] = {{"dequantize_ternary_float32"}, {"dequantize_ternary_float16"}, {"dequantize_ternary_bfloat16"}};

kw_status run_on_device(int32_t device, void* stream, const TernaryCodes& a) {
  KW_TRY(ternary::check_counts("kw_dequantize_ternary", 0, a.n, a.k));
  Context context;
  KW_TRY(module_context(module, device, &context));
  const KwTernaryCodesParams p = ternary::params_of(a);
  return launch(context, kernels[a.dtype], {ternary::grid_of(a), ternary::kThreads}, stream, &p, sizeof p);
}

}  // namespace
}  // namespace kw

KW_API kw_status kw_dequantize_ternary(int32_t device, void* stream, void* y, int64_t y_stride, const uint8_t* packed,
                                       const float* scale, int64_t scales, int64_t n, int64_t k, int32_t dtype) {
  const kw::TernaryCodes a{const_cast<uint8_t*>(packed), const_cast<float*>(scale), y, y_stride, scales, n, k, dtype};
  KW_TRY(kw::ternary::check("kw_dequantize_ternary", "y", true, device, a));
  if (n == 0 || k == 0) return KW_OK;
  return device == KW_CPU ? kw::cpu::dequantize_ternary(a) : kw::run_on_device(device, stream, a);
}
