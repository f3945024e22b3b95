// SPDX-License-Identifier: MIT
// The product of rows of e4m3 on the CPU. Rows of the weight are taken apart among the threads; four of them, decoded a
// piece at a time, serve many rows of x.
#include "ops/fp8/host/matmul_fp8.h"
#include "cpu/pages.h"
#include "cpu/pool.h"
#include "ops/fp8/cpu/e4m3.h"
#include "ops/linear/cpu/layer.h"

namespace kw::cpu {

KW_CPU_RANGE(matmul_fp8_columns)

namespace KW_ISA {
namespace {

constexpr int64_t kBlock = 1024, kBlockRows = 64;  // of k; of x

struct ProductFp8 {
  const ByteProduct& a;

  // 2^-8 of what codes stand for; past `count` zeros, up to a whole vector.
  static void decode(const int8_t* from, int64_t count, float* to) {
    Half half[kBlock];
    for (int64_t i = 0; i < count; ++i) half[i].bits = half_of_e4m3(static_cast<uint8_t>(from[i]));
    for (int64_t i = count; i % kLanes != 0; ++i) half[i].bits = 0;
    for (int64_t i = 0; i < count; i += kLanes) store(to + i, load(half + i));
  }

  float bias(int64_t column) const {
    float lane[kLanes];
    if (a.bias == nullptr) return 0.0f;
    if (a.bias_dtype == KW_FLOAT32) return static_cast<const float*>(a.bias)[column];
    if (a.bias_dtype == KW_FLOAT16) {
      store(lane, load_part(static_cast<const Half*>(a.bias) + column, 1));
    } else {
      store(lane, load_part(static_cast<const BFloat16*>(a.bias) + column, 1));
    }
    return lane[0];
  }

  void put(int64_t row, int64_t column, float sum) const {
    const float of_row = a.x_scale == nullptr ? 1.0f : a.x_scale[row];
    const float by = of_row * (a.weight_scale == nullptr ? 1.0f : a.weight_scale[column]);
    const Vec value = all(activated(a.activation, sum * 65536.0f * by + bias(column)));  // 2^8 of each factor
    const int64_t at = row * a.y_stride + column;
    if (a.dtype == KW_FLOAT32) return store_part(static_cast<float*>(a.y) + at, value, 1);
    if (a.dtype == KW_FLOAT16) return store_part(static_cast<Half*>(a.y) + at, value, 1);
    store_part(static_cast<BFloat16*>(a.y) + at, value, 1);
  }

  using Sums = float[kBlockRows][kColumns];

  // Of `count` of k, from `at` on, added to the sums of some rows and up to four columns.
  void add(Sums& sums, int64_t row, int64_t rows, int64_t column, int64_t columns, int64_t at) const {
    float right[kColumns][kBlock], left[kBlock];
    const int64_t count = a.k - at < kBlock ? a.k - at : kBlock;
    for (int64_t j = 0; j < columns; ++j) decode(a.weight + (column + j) * a.weight_stride + at, count, right[j]);
    for (int64_t i = 0; i < rows; ++i) {
      Vec sum[kColumns] = {zero(), zero(), zero(), zero()};
      decode(a.x + (row + i) * a.x_stride + at, count, left);
      for (int64_t k = 0; k < count; k += kLanes) {
        const Vec factor = load(left + k);
        for (int64_t j = 0; j < columns; ++j) sum[j] = mul_add(factor, load(right[j] + k), sum[j]);
      }
      for (int64_t j = 0; j < columns; ++j) sums[i][j] += total(sum[j]);
    }
  }

  void columns(int64_t begin, int64_t end) const {
    for (int64_t column = begin; column < end; column += kColumns) {
      const int64_t count = end - column < kColumns ? end - column : kColumns;
      for (int64_t row = 0; row < a.m; row += kBlockRows) {
        const int64_t rows = a.m - row < kBlockRows ? a.m - row : kBlockRows;
        Sums sums = {};
        for (int64_t at = 0; at < a.k; at += kBlock) add(sums, row, rows, column, count, at);
        for (int64_t i = 0; i < rows; ++i) {
          for (int64_t j = 0; j < count; ++j) put(row + i, column + j, sums[i][j]);
        }
      }
    }
  }
};

}  // namespace

void matmul_fp8_columns(const void* context, int64_t begin, int64_t end) {
  const ByteProduct& a = *static_cast<const ByteProduct*>(context);
  const int64_t first = begin * kColumns, last = end * kColumns < a.n ? end * kColumns : a.n;
  ProductFp8{a}.columns(first, last);
}

}  // namespace KW_ISA

#if KW_CPU_BASELINE
kw_status matmul_fp8(const ByteProduct& args) {
  constexpr int64_t kProducts = 131072;  // fewer take this thread less than another takes to wake up
  const int64_t size = args.dtype == KW_FLOAT32 ? 4 : 2;
  will_write(args.y, args.m, args.y_stride, args.n * size, size);
  parallel_for((args.n + kColumns - 1) / kColumns, 1 + kProducts / (args.m * (args.k + 1) * kColumns),
               picked_matmul_fp8_columns(), &args);
  return KW_OK;
}
#endif

}  // namespace kw::cpu
