// SPDX-License-Identifier: MIT
// kw_quantize_4bit and kw_quantize_4bit_absmax: check their arguments, then run on the CPU.
#include <kernelwright/quantize_4bit.h>

#include "four_bit_checks.h"

namespace kw {
namespace {

using namespace four_bit_checks;

kw_status run_on_device(const char* name, int32_t device) {
  return fail(KW_ERROR_UNSUPPORTED, "%s: device is %d, but this build has no 4-bit kernels for GPUs; use KW_CPU (-1)",
              name, device);
}

kw_status check(const char* name, int32_t device, const Quantize4bit& a) {
  KW_TRY(check_device(name, device));
  KW_TRY(check_dtype(name, a.dtype));
  KW_TRY(check_blocksize(name, a.blocksize));
  KW_TRY(check_quant_type(name, a.quant_type));
  KW_TRY(check_size(name, "count", a.count));
  if (a.count == 0) return KW_OK;
  KW_TRY(check_pointer(name, "packed", a.packed, 1));
  KW_TRY(check_pointer(name, "absmax", a.absmax, 4));
  return check_pointer(name, "x", a.x, size_of(a.dtype));
}

kw_status check(const char* name, int32_t device, const QuantizeAbsmax4bit& a) {
  KW_TRY(check_device(name, device));
  KW_TRY(check_size(name, "count", a.count));
  if (a.count == 0) return KW_OK;
  KW_TRY(check_pointer(name, "codes", a.codes, 1));
  KW_TRY(check_pointer(name, "absmax2", a.absmax2, 4));
  KW_TRY(check_pointer(name, "absmax", a.absmax, 4));
  KW_TRY(check_pointer(name, "offset", a.offset, 4));
  return check_pointer(name, "map", a.map, 4);
}

}  // namespace
}  // namespace kw

KW_API kw_status kw_quantize_4bit(int32_t device, void* stream, uint8_t* packed, float* absmax, const void* x,
                                  int64_t count, int32_t blocksize, int32_t quant_type, int32_t dtype) {
  constexpr const char* kName = "kw_quantize_4bit";
  const kw::Quantize4bit args{packed, absmax, x, count, blocksize, quant_type, dtype};
  (void)stream;
  KW_TRY(kw::check(kName, device, args));
  if (count == 0) return KW_OK;
  return device == KW_CPU ? kw::cpu::quantize_4bit(args) : kw::run_on_device(kName, device);
}

KW_API kw_status kw_quantize_4bit_absmax(int32_t device, void* stream, uint8_t* codes, float* absmax2,
                                         const float* absmax, const float* offset, const float* map, int64_t count) {
  constexpr const char* kName = "kw_quantize_4bit_absmax";
  const kw::QuantizeAbsmax4bit args{codes, absmax2, absmax, offset, map, count};
  (void)stream;
  KW_TRY(kw::check(kName, device, args));
  if (count == 0) return KW_OK;
  return device == KW_CPU ? kw::cpu::quantize_4bit_absmax(args) : kw::run_on_device(kName, device);
}
