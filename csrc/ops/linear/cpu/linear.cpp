// SPDX-License-Identifier: MIT
// A linear layer with its activation on the CPU. Rows of the weight are taken apart among the threads. For machines
// without a BLAS: torch's own product is what the Python operator takes.
#include "cpu/pages.h"
#include "cpu/pool.h"
#include "ops/linear/cpu/layer.h"

namespace kw::cpu {

KW_CPU_RANGE(linear_columns)

namespace KW_ISA {

void linear_columns(const void* context, int64_t begin, int64_t end) {
  columns_of<false>(*static_cast<const Linear*>(context), begin, end);
}

}  // namespace KW_ISA

#if KW_CPU_BASELINE
kw_status linear(const Linear& args) {
  const int64_t size = args.dtype == KW_FLOAT32 ? 4 : 2;
  will_write(args.y, args.m, args.y_stride, args.n * size, size);
  parallel_for(KW_ISA::column_groups(args), KW_ISA::column_grain(args), picked_linear_columns(), &args);
  return KW_OK;
}
#endif

}  // namespace kw::cpu
