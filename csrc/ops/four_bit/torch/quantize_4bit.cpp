// SPDX-License-Identifier: MIT
#include "ops/four_bit/api/quantize_4bit.h"

#include "core/error.h"
#include "core/sizes.h"
#include "core/tensor.h"
#include "ops/four_bit/host/four_bit.h"
#include "ops/four_bit/torch/weight.h"

namespace kw::torch {
namespace {

kw_status quantize_4bit(Call& call) {
  constexpr const char* kName = "quantize_4bit";
  const kw_tensor &x = *call.tensor(0), *packed = nullptr, *absmax = nullptr;
  const int32_t blocksize = blocksize_of(call.whole(1));
  const int kind = quant_type_of(call, 2);
  int64_t count = 0;
  if (blocksize < 32 || kind < 0 || x.dtype < KW_FLOAT32 || x.dtype > KW_BFLOAT16) return kElsewhere;
  KW_TRY(count_of(kName, "x", x, true, &count));
  const int64_t bytes = ratio_up(count, 2), blocks = ratio_up(count, blocksize);
  KW_TRY(call.make(1, &bytes, KW_UINT8, &packed));
  KW_TRY(call.make(1, &blocks, KW_FLOAT32, &absmax));
  return kw_quantize_4bit(x.device, call.stream(), static_cast<uint8_t*>(packed->data),
                          static_cast<float*>(absmax->data), x.data, count, blocksize, kind, x.dtype);
}

kw_status quantize_4bit_absmax(Call& call) {
  constexpr const char* kName = "quantize_4bit";
  const kw_tensor &absmax = *call.tensor(0), &offset = *call.tensor(1), &map = *call.tensor(2);
  const kw_tensor *codes = nullptr, *absmax2 = nullptr;
  int64_t count = 0;
  if (absmax.dtype != KW_FLOAT32) return kElsewhere;
  KW_TRY(count_of(kName, "absmax", absmax, true, &count));
  KW_TRY(check_flat(kName, "offset", offset, absmax, KW_FLOAT32, 1, true));
  KW_TRY(check_flat(kName, "map", map, absmax, KW_FLOAT32, 256, true));
  const int64_t blocks = ratio_up(count, kScalesABlock);
  KW_TRY(call.make(absmax.dims, absmax.sizes, KW_UINT8, &codes));
  KW_TRY(call.make(1, &blocks, KW_FLOAT32, &absmax2));
  return kw_quantize_4bit_absmax(absmax.device, call.stream(), static_cast<uint8_t*>(codes->data),
                                 static_cast<float*>(absmax2->data), static_cast<const float*>(absmax.data),
                                 static_cast<const float*>(offset.data), static_cast<const float*>(map.data), count);
}

KW_TORCH(quantize_4bit, "quantize_4bit", "(Tensor x, int blocksize, str quant_type) -> (Tensor, Tensor)")
KW_TORCH(quantize_4bit_absmax, "quantize_4bit.absmax", "(Tensor absmax, Tensor offset, Tensor map) -> (Tensor, Tensor)")

}  // namespace
}  // namespace kw::torch
