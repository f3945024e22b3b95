// SPDX-License-Identifier: MIT
// Rows into 8-bit integers on the CPU, a row at a time.
#include <string.h>

#include "cpu/pages.h"
#include "cpu/pool.h"
#include "ops/int8/cpu/row.h"

namespace kw::cpu {

KW_CPU_RANGE(quantize_rows_int8_rows)
KW_CPU_RANGE(quantize_rows_int8_columns)

namespace KW_ISA {

void quantize_rows_int8_rows(const void* context, int64_t begin, int64_t end) {
  const auto& a = *static_cast<const QuantizeRows*>(context);
  for (; begin < end; ++begin) quantize_row(a, begin);
}

// The codes of outliers' columns become 0.
void quantize_rows_int8_columns(const void* context, int64_t begin, int64_t end) {
  const auto& a = *static_cast<const QuantizeRows*>(context);
  for (int64_t column = 0; column < a.cols; ++column) {
    if (a.outliers[column] == 0) continue;
    for (int64_t row = begin; row < end; ++row) a.codes[row * a.codes_stride + column] = 0;
  }
}

}  // namespace KW_ISA

#if KW_CPU_BASELINE
kw_status quantize_rows_int8(const QuantizeRows& args) {
  constexpr int64_t kElements = 16384;  // fewer take this thread less than another takes to wake up
  if (args.outliers != nullptr && args.cols > 0) memset(args.outliers, 0, static_cast<size_t>(args.cols));
  will_write(args.codes, args.rows, args.codes_stride, args.cols, 1);
  const int64_t grain = 1 + kElements / (args.cols + 1);
  parallel_for(args.rows, grain, picked_quantize_rows_int8_rows(), &args);
  if (args.outliers != nullptr && args.rows > 1) {
    parallel_for(args.rows, grain, picked_quantize_rows_int8_columns(), &args);
  }
  return KW_OK;
}
#endif

}  // namespace kw::cpu
