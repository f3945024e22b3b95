// SPDX-License-Identifier: MIT
#include "ops/four_bit/api/matmul_4bit.h"

#include <string.h>

#include "core/error.h"
#include "core/tensor.h"
#include "ops/four_bit/torch/weight.h"

namespace kw::torch {
namespace {

// From so many rows of x on Python is asked: torch's own product of the dequantized weight may be faster there. The
// numbers are those of src/kernelwright/ops/four_bit/matmul_4bit.py, which says why; a test compares.
constexpr int64_t kManyRowsByGroups = 640, kWeightByGroups = int64_t{40} << 20, kLeastByGroups = int64_t{4} << 20;
constexpr int64_t kManyRows = 65, kManyRowsElse = 17, kManyRowsOnACpu = 256, kVector = 16;

bool many(const kw_tensor& x, const TensorRows& of, int64_t n, int64_t workspace) {
  const int64_t rows = of.count, k = of.cols;
  if (k == 0) return false;
  if (x.device == KW_CPU)
    return rows >= kManyRowsOnACpu &&
           (x.dtype == KW_FLOAT32 || (x.dtype == KW_BFLOAT16 && strcmp(kw_cpu_isa(), "amx") == 0));
  if (x.dtype == KW_FLOAT32 || k % 32 != 0) return rows >= kManyRowsElse;
  if (rows < kManyRows) return false;
  const int64_t elements = n * k < kWeightByGroups ? n * k : kWeightByGroups;
  const bool dense = rows * (kWeightByGroups - kLeastByGroups) >= kManyRowsByGroups * (elements - kLeastByGroups);
  const bool unaligned = reinterpret_cast<uintptr_t>(x.data) % kVector != 0 || of.stride * 2 % kVector != 0;
  return dense || unaligned || workspace == 0;
}

kw_status matmul(Call& call, bool nested) {
  const kw_tensor &x = *call.tensor(0), *y = nullptr;
  const Weight w = weight_of(call, 1, nested);
  const int64_t n = call.whole(w.rest + 1);
  const int32_t blocksize = blocksize_of(call.whole(w.rest + 2));
  const int kind = quant_type_of(call, w.rest + 3);
  if (n < 0 || kind < 0 || x.dims < 1 || x.dims > kMostDims || x.dtype < KW_FLOAT32 || x.dtype > KW_BFLOAT16)
    return kElsewhere;
  TensorRows rows;
  KW_TRY(rows_of("matmul_4bit", "x", x, &rows));
  int64_t count = 0;
  // A wrong n may ask for more than there is memory.
  if (__builtin_mul_overflow(n, rows.cols, &count) || elements_of(*w.packed) != count / 2 + count % 2)
    return kElsewhere;
  int64_t bytes = 0;
  if (rows.count > 0 && n > 0) {
    KW_TRY(kw_matmul_4bit_workspace(x.device, rows.count, n, rows.cols, blocksize, x.dtype, &bytes));
    if (many(x, rows, n, bytes)) return kElsewhere;
  }
  void* workspace = nullptr;
  KW_TRY(call.make_rows(x, n, x.dtype, &y));
  KW_TRY(call.scratch(bytes, &workspace));
  return kw_matmul_4bit_tensors(call.stream(), y, &x, w.packed, w.absmax, w.codes, w.absmax2, w.map, w.offset,
                                call.tensor(w.rest), workspace, bytes, blocksize, kind);
}

kw_status matmul_4bit(Call& call) { return matmul(call, false); }
kw_status matmul_4bit_nested(Call& call) { return matmul(call, true); }

KW_TORCH(matmul_4bit, "matmul_4bit",
         "(Tensor x, Tensor packed, Tensor absmax, Tensor? bias, SymInt n, int blocksize, str quant_type) -> Tensor")
KW_TORCH(matmul_4bit_nested, "matmul_4bit.nested",
         "(Tensor x, Tensor packed, Tensor codes, Tensor absmax2, Tensor map, Tensor offset, Tensor? bias, SymInt n, "
         "int blocksize, str quant_type) -> Tensor")

}  // namespace
}  // namespace kw::torch
