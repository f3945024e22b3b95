// SPDX-License-Identifier: MIT
// A linear layer of a ternary weight on the CPU: its rows are quantized to memory of its own, then it is a product.
#include <stdlib.h>

#include "core/error.h"
#include "cpu/pool.h"
#include "ops/int8/cpu/row.h"
#include "ops/ternary/host/ternary.h"

namespace kw::cpu {

KW_CPU_RANGE(linear_ternary_quantize)
KW_CPU_RANGE(linear_ternary_residual)

namespace KW_ISA {
namespace {

// Rounded once more, as an addition of its own would.
template <class T>
void add(const LinearTernary& a, int64_t row) {
  T* const y = static_cast<T*>(a.product.y) + row * a.product.y_stride;
  const T* const other = static_cast<const T*>(a.residual) + row * a.residual_stride;
  int64_t i = 0;
  for (; i + kLanes <= a.product.n; i += kLanes) store(y + i, KW_ISA::add(load(y + i), load(other + i)));
  const int64_t rest = a.product.n - i;
  if (rest > 0) store_part(y + i, KW_ISA::add(load_part(y + i, rest), load_part(other + i, rest)), rest);
}

}  // namespace

void linear_ternary_quantize(const void* context, int64_t begin, int64_t end) {
  for (; begin < end; ++begin) quantize_row(*static_cast<const QuantizeRows*>(context), begin);
}

void linear_ternary_residual(const void* context, int64_t begin, int64_t end) {
  const auto& a = *static_cast<const LinearTernary*>(context);
  for (; begin < end; ++begin) {
    if (a.product.dtype == KW_FLOAT32) {
      add<float>(a, begin);
    } else if (a.product.dtype == KW_FLOAT16) {
      add<Half>(a, begin);
    } else {
      add<BFloat16>(a, begin);
    }
  }
}

}  // namespace KW_ISA

#if KW_CPU_BASELINE
kw_status linear_ternary(const LinearTernary& args) {
  constexpr int64_t kElements = 16384;  // fewer take this thread less than another takes to wake up
  MatmulTernary product = args.product;
  const int64_t m = product.m, n = product.n, k = product.k;
  void* const room = malloc(static_cast<size_t>(m * (k + 4)));
  if (room == nullptr)
    return fail(KW_ERROR_OUT_OF_MEMORY, "kw_linear_ternary: no memory for the codes of %lld rows of %lld", (long long)m,
                (long long)k);
  QuantizeRows rows{};
  rows.absmax = static_cast<float*>(room);
  rows.codes = reinterpret_cast<int8_t*>(rows.absmax + m);
  rows.codes_stride = k;
  rows.x = args.x, rows.weight = args.weight, rows.x_stride = args.x_stride;
  rows.rows = m, rows.cols = k, rows.dtype = product.dtype, rows.weight_dtype = args.weight_dtype;
  rows.clamp = args.clamp, rows.eps = args.eps;
  parallel_for(m, 1 + kElements / (k + 1), picked_linear_ternary_quantize(), &rows);
  product.x = rows.codes, product.x_stride = k, product.absmax = rows.absmax;
  const kw_status status = ternary_product(product);
  if (status == KW_OK && args.residual != nullptr) {
    parallel_for(m, 1 + kElements / (n + 1), picked_linear_ternary_residual(), &args);
  }
  free(room);
  return status;
}
#endif

}  // namespace kw::cpu
