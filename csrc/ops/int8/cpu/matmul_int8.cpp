// SPDX-License-Identifier: MIT
// The product of rows of 8-bit integers on the CPU. Rows of the weight are taken apart among the threads; four of them
// and two of x share what is loaded. Compilers know this form of a sum: two products of 16 bits an instruction and
// lane.
#include "ops/int8/host/matmul_int8.h"
#include "cpu/pages.h"
#include "cpu/pool.h"
#include "cpu/simd.h"

namespace kw::cpu {

KW_CPU_RANGE(matmul_int8_columns)

constexpr int64_t kColumns = 4, kRows = 2;

namespace KW_ISA {
namespace {

struct Product {
  const ByteProduct& a;

  float bias(int64_t column) const {
    float lane[kLanes];
    if (a.bias_dtype == KW_FLOAT32) return static_cast<const float*>(a.bias)[column];
    if (a.bias_dtype == KW_FLOAT16) {
      store(lane, load_part(static_cast<const Half*>(a.bias) + column, 1));
    } else {
      store(lane, load_part(static_cast<const BFloat16*>(a.bias) + column, 1));
    }
    return lane[0];
  }

  template <class T>
  void put(int64_t at, float value) const {
    store_part(static_cast<T*>(a.y) + at, all(value), 1);
  }

  void put(int64_t row, int64_t column, int32_t sum) const {
    const int64_t at = row * a.y_stride + column;
    if (a.dtype == KW_INT32) {
      static_cast<int32_t*>(a.y)[at] = sum;
      return;
    }
    const float of_row = a.x_scale == nullptr ? 1.0f : a.x_scale[row];
    const float by = of_row * (a.weight_scale == nullptr ? 1.0f : a.weight_scale[column]);
    float value = static_cast<float>(sum) * by * a.factor;
    if (a.bias != nullptr) value += bias(column);
    if (a.dtype == KW_FLOAT32) return put<float>(at, value);
    if (a.dtype == KW_FLOAT16) return put<Half>(at, value);
    return put<BFloat16>(at, value);
  }

  // kM rows of x, kN of the weight.
  template <int64_t kM, int64_t kN>
  void tile(int64_t row, int64_t column) const {
    int32_t sum[kM][kN] = {};
    const int8_t *left[kM], *right[kN];
    for (int64_t i = 0; i < kM; ++i) left[i] = a.x + (row + i) * a.x_stride;
    for (int64_t j = 0; j < kN; ++j) right[j] = a.weight + (column + j) * a.weight_stride;
    for (int64_t i = 0; i < kM; ++i) {
      for (int64_t j = 0; j < kN; ++j) {
        int32_t total = 0;
        for (int64_t k = 0; k < a.k; ++k) {
          total += static_cast<int16_t>(left[i][k]) * static_cast<int16_t>(right[j][k]);
        }
        sum[i][j] = total;
      }
    }
    for (int64_t i = 0; i < kM; ++i) {
      for (int64_t j = 0; j < kN; ++j) put(row + i, column + j, sum[i][j]);
    }
  }

  void columns(int64_t begin, int64_t end) const {
    for (int64_t column = begin; column < end;) {
      const bool four = end - column >= kColumns;
      int64_t row = 0;
      for (; row + kRows <= a.m; row += kRows) four ? tile<kRows, kColumns>(row, column) : tile<kRows, 1>(row, column);
      for (; row < a.m; ++row) four ? tile<1, kColumns>(row, column) : tile<1, 1>(row, column);
      column += four ? kColumns : 1;
    }
  }
};

}  // namespace

void matmul_int8_columns(const void* context, int64_t begin, int64_t end) {
  const ByteProduct& a = *static_cast<const ByteProduct*>(context);
  const int64_t first = begin * kColumns, last = end * kColumns < a.n ? end * kColumns : a.n;
  Product{a}.columns(first, last);
}

}  // namespace KW_ISA

#if KW_CPU_BASELINE
kw_status matmul_int8(const ByteProduct& args) {
  constexpr int64_t kProducts = 524288;  // fewer take this thread less than another takes to wake up
  const int64_t size = args.dtype == KW_FLOAT32 || args.dtype == KW_INT32 ? 4 : 2;
  will_write(args.y, args.m, args.y_stride, args.n * size, size);
  parallel_for((args.n + kColumns - 1) / kColumns, 1 + kProducts / (args.m * (args.k + 1) * kColumns),
               picked_matmul_int8_columns(), &args);
  return KW_OK;
}
#endif

}  // namespace kw::cpu
