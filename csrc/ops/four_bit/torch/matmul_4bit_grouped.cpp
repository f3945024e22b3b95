// SPDX-License-Identifier: MIT
#include "ops/four_bit/api/matmul_4bit_grouped.h"

#include "core/error.h"
#include "core/tensor.h"
#include "ops/four_bit/host/four_bit.h"
#include "ops/four_bit/torch/weight.h"

namespace kw::torch {
namespace {

kw_status grouped(Call& call, bool nested) {
  const kw_tensor &x = *call.tensor(0), *y = nullptr;
  const Weight w = weight_of(call, 1, nested);
  const kw_tensor& ends = *call.tensor(w.rest);
  const int64_t n = call.whole(w.rest + 1);
  const int32_t blocksize = blocksize_of(call.whole(w.rest + 2));
  const int kind = quant_type_of(call, w.rest + 3);
  if (n < 0 || kind < 0 || x.dims < 1 || x.dims > kMostDims || x.dtype < KW_FLOAT32 || x.dtype > KW_BFLOAT16)
    return kElsewhere;
  TensorRows rows;
  KW_TRY(rows_of("matmul_4bit_grouped", "x", x, &rows));
  const int64_t experts = elements_of(ends);
  int64_t count = 0;
  // A wrong n may ask for more than there is memory.
  if (__builtin_mul_overflow(n, rows.cols, &count) || __builtin_mul_overflow(experts, count, &count) ||
      elements_of(*w.packed) != count / 2 + count % 2)
    return kElsewhere;
  int64_t bytes = 0;
  if (x.device == KW_CPU && rows.count > 0 && n > 0) bytes = cpu::product_4bit_workspace(rows.count, rows.cols);
  void* workspace = nullptr;
  KW_TRY(call.make_rows(x, n, x.dtype, &y));
  KW_TRY(call.scratch(bytes, &workspace));
  return kw_matmul_4bit_grouped_tensors(call.stream(), y, &x, w.packed, w.absmax, w.codes, w.absmax2, w.map, w.offset,
                                        &ends, workspace, bytes, blocksize, kind);
}

kw_status matmul_4bit_grouped(Call& call) { return grouped(call, false); }
kw_status matmul_4bit_grouped_nested(Call& call) { return grouped(call, true); }

KW_TORCH(matmul_4bit_grouped, "matmul_4bit_grouped",
         "(Tensor x, Tensor packed, Tensor absmax, Tensor ends, SymInt n, int blocksize, str quant_type) -> Tensor")
KW_TORCH(matmul_4bit_grouped_nested, "matmul_4bit_grouped.nested",
         "(Tensor x, Tensor packed, Tensor codes, Tensor absmax2, Tensor map, Tensor offset, Tensor ends, SymInt n, "
         "int blocksize, str quant_type) -> Tensor")

}  // namespace
}  // namespace kw::torch
