// SPDX-License-Identifier: MIT
// kw_matmul_4bit: checks its arguments, then runs on the CPU.
#include <kernelwright/matmul_4bit.h>

#include "four_bit_checks.h"

namespace kw {
namespace {

using namespace four_bit_checks;

kw_status run_on_device(const char* name, int32_t device) {
  return fail(KW_ERROR_UNSUPPORTED, "%s: device is %d, but this build has no 4-bit kernels for GPUs; use KW_CPU (-1)",
              name, device);
}

kw_status check_sizes(const char* name, int64_t m, int64_t n, int64_t k) {
  KW_TRY(check_size(name, "m", m));
  KW_TRY(check_size(name, "n", n));
  KW_TRY(check_size(name, "k", k));
  const int64_t widest = n > k ? n : k;
  if ((k > 0 && n > kMaxElements / k) || (widest > 0 && m > kMaxElements / widest))
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "%s: m, n and k are %lld, %lld and %lld; no memory holds such matrices. Look at how they were computed",
                name, (long long)m, (long long)n, (long long)k);
  return KW_OK;
}

kw_status workspace(const char* name, int32_t device, int64_t m, int64_t k, int64_t* bytes) {
  if (device != KW_CPU) return run_on_device(name, device);
  *bytes = cpu::matmul_4bit_workspace(m, k);
  return KW_OK;
}

kw_status check_workspace(const char* name, int32_t device, const Matmul4bit& a, int64_t bytes) {
  int64_t needed = 0;
  KW_TRY(workspace(name, device, a.m, a.k, &needed));
  if (bytes < needed)
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "%s: workspace_bytes is %lld; this call needs %lld (kw_matmul_4bit_workspace tells)", name,
                (long long)bytes, (long long)needed);
  return needed > 0 ? check_pointer(name, "workspace", a.workspace, kWorkspaceAlignment) : KW_OK;
}

kw_status check(const char* name, int32_t device, const Matmul4bit& a) {
  KW_TRY(check_device(name, device));
  KW_TRY(check_dtype(name, a.dtype));
  KW_TRY(check_blocksize(name, a.blocksize));
  KW_TRY(check_quant_type(name, a.quant_type));
  KW_TRY(check_sizes(name, a.m, a.n, a.k));
  if (a.m == 0 || a.n == 0) return KW_OK;
  const unsigned size = size_of(a.dtype);
  KW_TRY(check_pointer(name, "y", a.y, size));
  if (a.m > 1 && a.y_stride < a.n && a.y_stride > -a.n)
    return fail(KW_ERROR_INVALID_ARGUMENT,
                "%s: y_stride is %lld; rows of %lld elements that are written must not overlap", name,
                (long long)a.y_stride, (long long)a.n);
  if (a.bias != nullptr) KW_TRY(check_pointer(name, "bias", a.bias, size));
  if (a.k == 0) return KW_OK;
  KW_TRY(check_pointer(name, "x", a.x, size));
  KW_TRY(check_pointer(name, "packed", a.packed, 1));
  return check_scales(name, a.scales);
}

}  // namespace
}  // namespace kw

KW_API kw_status kw_matmul_4bit(int32_t device, void* stream, void* y, int64_t y_stride, const void* x,
                                int64_t x_stride, const uint8_t* packed, const float* absmax, const uint8_t* codes,
                                const float* absmax2, const float* map, const float* offset, const void* bias,
                                void* workspace, int64_t workspace_bytes, int64_t m, int64_t n, int64_t k,
                                int32_t blocksize, int32_t quant_type, int32_t dtype) {
  constexpr const char* kName = "kw_matmul_4bit";
  kw::Matmul4bit a{};
  a.y = y, a.y_stride = y_stride;
  a.x = x, a.x_stride = x_stride;
  a.packed = packed;
  a.scales = {absmax, codes, absmax2, map, offset};
  a.bias = bias, a.workspace = workspace;
  a.m = m, a.n = n, a.k = k;
  a.blocksize = blocksize, a.quant_type = quant_type, a.dtype = dtype;
  (void)stream;
  KW_TRY(kw::check(kName, device, a));
  if (m == 0 || n == 0) return KW_OK;
  KW_TRY(kw::check_workspace(kName, device, a, workspace_bytes));
  return kw::cpu::matmul_4bit(a);
}

KW_API kw_status kw_matmul_4bit_workspace(int32_t device, int64_t m, int64_t n, int64_t k, int32_t blocksize,
                                          int32_t dtype, int64_t* bytes) {
  constexpr const char* kName = "kw_matmul_4bit_workspace";
  KW_TRY(kw::four_bit_checks::check_device(kName, device));
  KW_TRY(kw::four_bit_checks::check_dtype(kName, dtype));
  KW_TRY(kw::four_bit_checks::check_blocksize(kName, blocksize));
  KW_TRY(kw::check_sizes(kName, m, n, k));
  if (bytes == nullptr) return kw::fail(KW_ERROR_INVALID_ARGUMENT, "%s: bytes is NULL", kName);
  return kw::workspace(kName, device, m, k, bytes);
}
