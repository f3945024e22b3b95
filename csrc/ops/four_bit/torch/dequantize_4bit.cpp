// SPDX-License-Identifier: MIT
#include "ops/four_bit/api/dequantize_4bit.h"

#include "core/error.h"
#include "ops/four_bit/torch/weight.h"

namespace kw::torch {
namespace {

kw_status dequantize(Call& call, bool nested) {
  const Weight w = weight_of(call, 0, nested);
  int64_t sizes[kMostDims];
  int dims = 0;
  if (!call.list(w.rest, sizes, &dims)) return kElsewhere;
  int64_t count = 1;
  for (int i = 0; i < dims; ++i)
    if (sizes[i] < 0 || __builtin_mul_overflow(count, sizes[i], &count)) return kElsewhere;
  const int kind = quant_type_of(call, w.rest + 2);
  const int32_t dtype = call.type(w.rest + 3);
  // A wrong shape may ask for more than there is memory.
  if (kind < 0 || dtype < KW_FLOAT32 || dtype > KW_BFLOAT16 || elements_of(*w.packed) != count / 2 + count % 2)
    return kElsewhere;
  const kw_tensor* y = nullptr;
  KW_TRY(call.make(dims, sizes, dtype, &y));
  return kw_dequantize_4bit_tensors(call.stream(), y, w.packed, w.absmax, w.codes, w.absmax2, w.map, w.offset,
                                    blocksize_of(call.whole(w.rest + 1)), kind);
}

kw_status dequantize_4bit(Call& call) { return dequantize(call, false); }
kw_status dequantize_4bit_nested(Call& call) { return dequantize(call, true); }

KW_TORCH(dequantize_4bit, "dequantize_4bit",
         "(Tensor packed, Tensor absmax, SymInt[] shape, int blocksize, str quant_type, ScalarType dtype) -> Tensor")
KW_TORCH(dequantize_4bit_nested, "dequantize_4bit.nested",
         "(Tensor packed, Tensor codes, Tensor absmax2, Tensor map, Tensor offset, SymInt[] shape, int blocksize, "
         "str quant_type, ScalarType dtype) -> Tensor")

}  // namespace
}  // namespace kw::torch
