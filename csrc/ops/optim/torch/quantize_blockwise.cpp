// SPDX-License-Identifier: MIT
#include "ops/optim/api/quantize_blockwise.h"

#include "core/error.h"
#include "core/sizes.h"
#include "core/tensor.h"
#include "torch/operator.h"

namespace kw::torch {
namespace {

kw_status quantize_blockwise(Call& call) {
  constexpr const char* kName = "quantize_blockwise";
  const kw_tensor &x = *call.tensor(0), &map = *call.tensor(1), *codes = nullptr, *absmax = nullptr;
  const int64_t blocksize = call.whole(2);
  int64_t count = 0;
  if (blocksize < 32 || blocksize > 4096 || x.dtype < KW_FLOAT32 || x.dtype > KW_BFLOAT16) return kElsewhere;
  KW_TRY(count_of(kName, "x", x, true, &count));
  KW_TRY(check_flat(kName, "map", map, x, KW_FLOAT32, 256, true));
  const int64_t blocks = ratio_up(count, blocksize);
  KW_TRY(call.make(x.dims, x.sizes, KW_UINT8, &codes));
  KW_TRY(call.make(1, &blocks, KW_FLOAT32, &absmax));
  return kw_quantize_blockwise(x.device, call.stream(), static_cast<uint8_t*>(codes->data),
                               static_cast<float*>(absmax->data), x.data, static_cast<const float*>(map.data), count,
                               static_cast<int32_t>(blocksize), x.dtype);
}

KW_TORCH(quantize_blockwise, "quantize_blockwise", "(Tensor x, Tensor map, int blocksize) -> (Tensor, Tensor)")

}  // namespace
}  // namespace kw::torch
