// SPDX-License-Identifier: MIT
// kw_dequantize_4bit: checks its arguments, then runs on the CPU or launches csrc/ops/four_bit/dequantize_4bit.cu.
#include "ops/four_bit/api/dequantize_4bit.h"
#include <string.h>

#include "ops/four_bit/geometry.h"
#include "ops/four_bit/host/checks.h"
#include "ops/four_bit/host/launch.h"
#include "ops/four_bit/host/tensors.h"

namespace kw {
namespace {

using namespace four_bit_checks;

constexpr int64_t kBlockUnits = int64_t{kDequantizeThreads} * kDequantizeSlots;

Module module{"dequantize_4bit"};
Kernel kernels[3] = {{"dequantize_4bit_float32"}, {"dequantize_4bit_float16"}, {"dequantize_4bit_bfloat16"}};

kw_status run_on_device(int32_t device, void* stream, const Dequantize4bit& a) {
  Context context;
  KW_TRY(module_context(module, device, &context));
  const int64_t count = kVectorBytes / size_of(a.dtype);
  KwDequantize4bitParams p{};
  p.y = static_cast<char*>(a.y);
  p.packed = bytes_of(a.packed);
  p.scales = scales_of(a.scales, a.blocksize);
  p.count = a.count;
  p.aligned = aligned_to(a.y, kVectorBytes) && aligned_to(a.packed, count / 2);
  memcpy(p.values, kCodeValues4bit[a.quant_type], sizeof p.values);
  const int64_t blocks = ratio_up(a.count, count * kBlockUnits);
  if (blocks > kMaxBlocks)
    return fail(KW_ERROR_UNSUPPORTED, "kw_dequantize_4bit: count is %lld; a GPU is given at most %lld at once",
                (long long)a.count, (long long)(kMaxBlocks * count * kBlockUnits));
  Launch how{static_cast<uint32_t>(blocks), kDequantizeThreads};
  how.overlap = true;
  return launch(context, kernels[a.dtype], how, stream, &p, sizeof p);
}

kw_status check(const char* name, int32_t device, const Dequantize4bit& a) {
  KW_TRY(check_device(name, device));
  KW_TRY(check_float_type(name, a.dtype));
  KW_TRY(check_blocksize(name, a.blocksize));
  KW_TRY(check_quant_type(name, a.quant_type));
  KW_TRY(check_size(name, "count", a.count));
  if (a.count == 0) return KW_OK;
  KW_TRY(check_pointer(name, "y", a.y, size_of(a.dtype)));
  KW_TRY(check_pointer(name, "packed", a.packed, 1));
  return check_scales(name, a.scales);
}

kw_status run(const char* name, int32_t device, void* stream, const Dequantize4bit& args) {
  KW_TRY(check(name, device, args));
  if (args.count == 0) return KW_OK;
  return device == KW_CPU ? cpu::dequantize_4bit(args) : run_on_device(device, stream, args);
}

}  // namespace
}  // namespace kw

KW_API kw_status kw_dequantize_4bit(int32_t device, void* stream, void* y, const uint8_t* packed, const float* absmax,
                                    const uint8_t* codes, const float* absmax2, const float* map, const float* offset,
                                    int64_t count, int32_t blocksize, int32_t quant_type, int32_t dtype) {
  const kw::Dequantize4bit args{y,          packed, {absmax, codes, absmax2, map, offset, 0, 0}, count, blocksize,
                                quant_type, dtype};
  return kw::run("kw_dequantize_4bit", device, stream, args);
}

KW_API kw_status kw_dequantize_4bit_tensors(void* stream, const kw_tensor* y, const kw_tensor* packed,
                                            const kw_tensor* absmax, const kw_tensor* codes, const kw_tensor* absmax2,
                                            const kw_tensor* map, const kw_tensor* offset, int32_t blocksize,
                                            int32_t quant_type) {
  constexpr const char* kName = "kw_dequantize_4bit_tensors";
  kw_tensor to;
  kw::Dequantize4bit args{};
  KW_TRY(kw::read_tensor(kName, "y", y, &to));
  KW_TRY(kw::count_of(kName, "y", to, true, &args.count));
  KW_TRY(kw::four_bit_tensors::read_weight(kName, {packed, absmax, codes, absmax2, map, offset}, to, 0, args.count,
                                           blocksize, args.count > 0, &args.packed, &args.scales));
  args.y = to.data;
  args.blocksize = blocksize, args.quant_type = quant_type, args.dtype = to.dtype;
  return kw::run(kName, to.device, stream, args);
}
