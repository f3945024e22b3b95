// SPDX-License-Identifier: MIT
// kw_dequantize_4bit: checks its arguments, then runs on the CPU.
#include <kernelwright/dequantize_4bit.h>

#include "four_bit_checks.h"

namespace kw {
namespace {

using namespace four_bit_checks;

kw_status run_on_device(const char* name, int32_t device) {
  return fail(KW_ERROR_UNSUPPORTED, "%s: device is %d, but this build has no 4-bit kernels for GPUs; use KW_CPU (-1)",
              name, device);
}

kw_status check(const char* name, int32_t device, const Dequantize4bit& a) {
  KW_TRY(check_device(name, device));
  KW_TRY(check_dtype(name, a.dtype));
  KW_TRY(check_blocksize(name, a.blocksize));
  KW_TRY(check_quant_type(name, a.quant_type));
  KW_TRY(check_size(name, "count", a.count));
  if (a.count == 0) return KW_OK;
  KW_TRY(check_pointer(name, "y", a.y, size_of(a.dtype)));
  KW_TRY(check_pointer(name, "packed", a.packed, 1));
  return check_scales(name, a.scales);
}

}  // namespace
}  // namespace kw

KW_API kw_status kw_dequantize_4bit(int32_t device, void* stream, void* y, const uint8_t* packed, const float* absmax,
                                    const uint8_t* codes, const float* absmax2, const float* map, const float* offset,
                                    int64_t count, int32_t blocksize, int32_t quant_type, int32_t dtype) {
  constexpr const char* kName = "kw_dequantize_4bit";
  const kw::Dequantize4bit args{y, packed, {absmax, codes, absmax2, map, offset}, count, blocksize, quant_type, dtype};
  (void)stream;
  KW_TRY(kw::check(kName, device, args));
  if (count == 0) return KW_OK;
  return device == KW_CPU ? kw::cpu::dequantize_4bit(args) : kw::run_on_device(kName, device);
}
