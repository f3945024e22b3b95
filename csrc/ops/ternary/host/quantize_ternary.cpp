// SPDX-License-Identifier: MIT
// kw_quantize_ternary: checks its arguments, then runs on the CPU or launches csrc/ops/ternary/quantize_ternary.cu.
#include "ops/ternary/api/quantize_ternary.h"

#include "ops/ternary/host/codes.h"

namespace kw {
namespace {

Module module{"ternary_weights"};
Kernel scale_kernel{"quantize_ternary_scale"};
Kernel sums_kernels[3] = {
    {"quantize_ternary_sums_float32"}, {"quantize_ternary_sums_float16"}, {"quantize_ternary_sums_bfloat16"}};
Kernel pack_kernels[3] = {
    {"quantize_ternary_pack_float32"}, {"quantize_ternary_pack_float16"}, {"quantize_ternary_pack_bfloat16"}};

// Rows' sums lie where codes will, until the scale is known: each row has 32 bytes of those and more.
kw_status run_on_device(int32_t device, void* stream, const TernaryCodes& a) {
  KW_TRY(ternary::check_counts("kw_quantize_ternary", 0, a.n, a.k));
  Context context;
  KW_TRY(module_context(module, device, &context));
  const KwTernaryCodesParams p = ternary::params_of(a);
  const bool empty = a.n == 0 || a.k == 0, one = p.scales == 0;
  if (a.n > 0 && (!empty || !one))
    KW_TRY(launch(context, sums_kernels[a.dtype], {p.n, ternary::kThreads}, stream, &p, sizeof p));
  if (one) KW_TRY(launch(context, scale_kernel, {1, ternary::kThreads}, stream, &p, sizeof p));
  if (empty) return KW_OK;
  return launch(context, pack_kernels[a.dtype], {ternary::grid_of(a), ternary::kThreads}, stream, &p, sizeof p);
}

}  // namespace
}  // namespace kw

KW_API kw_status kw_quantize_ternary(int32_t device, void* stream, uint8_t* packed, float* scale, int64_t scales,
                                     const void* weight, int64_t weight_stride, int64_t n, int64_t k, int32_t dtype) {
  const kw::TernaryCodes a{packed, scale, const_cast<void*>(weight), weight_stride, scales, n, k, dtype};
  KW_TRY(kw::ternary::check("kw_quantize_ternary", "weight", false, device, a));
  if (scales == 0) return KW_OK;
  return device == KW_CPU ? kw::cpu::quantize_ternary(a) : kw::run_on_device(device, stream, a);
}
