// SPDX-License-Identifier: MIT
#include "ops/optim/api/dequantize_blockwise.h"

#include "core/error.h"
#include "core/sizes.h"
#include "core/tensor.h"
#include "torch/operator.h"

namespace kw::torch {
namespace {

kw_status dequantize_blockwise(Call& call) {
  constexpr const char* kName = "dequantize_blockwise";
  const kw_tensor &codes = *call.tensor(0), &absmax = *call.tensor(1), &map = *call.tensor(2), *y = nullptr;
  const int64_t blocksize = call.whole(3);
  const int32_t dtype = call.type(4);
  int64_t count = 0;
  if (blocksize < 32 || blocksize > 4096 || dtype < KW_FLOAT32 || dtype > KW_BFLOAT16 || codes.dtype != KW_UINT8)
    return kElsewhere;
  KW_TRY(count_of(kName, "codes", codes, true, &count));
  KW_TRY(check_flat(kName, "absmax", absmax, codes, KW_FLOAT32, ratio_up(count, blocksize), true));
  KW_TRY(check_flat(kName, "map", map, codes, KW_FLOAT32, 256, true));
  KW_TRY(call.make(codes.dims, codes.sizes, dtype, &y));
  return kw_dequantize_blockwise(codes.device, call.stream(), y->data, static_cast<const uint8_t*>(codes.data),
                                 static_cast<const float*>(absmax.data), static_cast<const float*>(map.data), count,
                                 static_cast<int32_t>(blocksize), dtype);
}

KW_TORCH(dequantize_blockwise, "dequantize_blockwise",
         "(Tensor codes, Tensor absmax, Tensor map, int blocksize, ScalarType dtype) -> Tensor")

}  // namespace
}  // namespace kw::torch
