// SPDX-License-Identifier: MIT
// kw_quantize_4bit and kw_quantize_4bit_absmax: check their arguments, then run on the CPU or launch
// csrc/ops/four_bit/quantize_4bit.cu.
#include "ops/four_bit/api/quantize_4bit.h"

#include "ops/four_bit/host/checks.h"
#include "ops/four_bit/host/quantize_plan.h"

namespace kw {
namespace {

using namespace four_bit_checks;

Module module{"quantize_4bit"};
Kernel kernels[3] = {{"quantize_4bit_float32"}, {"quantize_4bit_float16"}, {"quantize_4bit_bfloat16"}};
Kernel absmax_kernel{"quantize_4bit_absmax"};

kw_status launch_blocks(const Context& context, void* stream, Kernel& kernel, int64_t blocks, int threads,
                        const void* params, size_t size) {
  Launch how{static_cast<uint32_t>(blocks), static_cast<uint32_t>(threads)};
  how.overlap = true;
  return launch(context, kernel, how, stream, params, size);
}

kw_status run_on_device(int32_t device, void* stream, const Quantize4bit& a) {
  const KwQuantize4bitParams p = quantize_4bit_plan::params_of(a);
  Context context;
  KW_TRY(module_context(module, device, &context));
  return launch_blocks(context, stream, kernels[a.dtype], quantize_4bit_plan::blocks_of(a, *context.device),
                       kQuantizeThreads, &p, sizeof p);
}

kw_status run_on_device(const char* name, int32_t device, void* stream, const QuantizeAbsmax4bit& a) {
  const KwQuantizeAbsmax4bitParams p{static_cast<char*>(static_cast<void*>(a.codes)),
                                     static_cast<char*>(static_cast<void*>(a.absmax2)),
                                     bytes_of(a.absmax),
                                     bytes_of(a.offset),
                                     bytes_of(a.map),
                                     a.count};
  const int64_t blocks = ratio_up(a.count, kAbsmaxThreads);
  if (blocks > kMaxBlocks)
    return fail(KW_ERROR_UNSUPPORTED,
                "%s: count would take %lld blocks of threads, but a GPU runs at most %lld at once", name,
                (long long)blocks, (long long)kMaxBlocks);
  Context context;
  KW_TRY(module_context(module, device, &context));
  return launch_blocks(context, stream, absmax_kernel, blocks, kAbsmaxThreads, &p, sizeof p);
}

kw_status check(const char* name, int32_t device, const Quantize4bit& a) {
  KW_TRY(check_device(name, device));
  KW_TRY(check_float_type(name, a.dtype));
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
  KW_TRY(kw::check(kName, device, args));
  if (count == 0) return KW_OK;
  return device == KW_CPU ? kw::cpu::quantize_4bit(args) : kw::run_on_device(device, stream, args);
}

KW_API kw_status kw_quantize_4bit_absmax(int32_t device, void* stream, uint8_t* codes, float* absmax2,
                                         const float* absmax, const float* offset, const float* map, int64_t count) {
  constexpr const char* kName = "kw_quantize_4bit_absmax";
  const kw::QuantizeAbsmax4bit args{codes, absmax2, absmax, offset, map, count};
  KW_TRY(kw::check(kName, device, args));
  if (count == 0) return KW_OK;
  return device == KW_CPU ? kw::cpu::quantize_4bit_absmax(args) : kw::run_on_device(kName, device, stream, args);
}
