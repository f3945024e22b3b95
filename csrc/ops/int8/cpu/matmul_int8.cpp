// SPDX-License-Identifier: MIT
// The product of rows of 8-bit integers on the CPU. Rows of the weight are taken apart among the threads; four of them
// and two of x, or four, share what is loaded.
#include "ops/int8/host/matmul_int8.h"
#include "cpu/pages.h"
#include "cpu/pool.h"
#include "cpu/simd.h"

namespace kw::cpu {

KW_CPU_RANGE(matmul_int8_columns)

constexpr int64_t kColumns = 4;

}  // namespace kw::cpu

#define KW_INT8_FILE_scalar "ops/int8/cpu/isa/any.h"
#define KW_INT8_FILE_avx2 "ops/int8/cpu/isa/any.h"
#define KW_INT8_FILE_avx512 "ops/int8/cpu/isa/avx512.h"
#define KW_INT8_FILE_neon "ops/int8/cpu/isa/any.h"
#include KW_CPU_JOIN(KW_INT8_FILE_, KW_ISA)

namespace kw::cpu {
namespace KW_ISA {
namespace {

struct Product {
  const ByteProduct& a;

  template <int kN>
  Vec bias(int64_t column) const {
    if (a.bias_dtype == KW_FLOAT32) return load_part(static_cast<const float*>(a.bias) + column, kN);
    if (a.bias_dtype == KW_FLOAT16) return load_part(static_cast<const Half*>(a.bias) + column, kN);
    return load_part(static_cast<const BFloat16*>(a.bias) + column, kN);
  }

  // Neighbours of a row.
  template <int kN>
  void put(int64_t row, int64_t column, const int32_t (&sums)[kN]) const {
    const int64_t at = row * a.y_stride + column;
    if (a.dtype == KW_INT32) {
      memcpy(static_cast<int32_t*>(a.y) + at, sums, sizeof sums);
      return;
    }
    float wide[kN];
    for (int j = 0; j < kN; ++j) wide[j] = static_cast<float>(sums[j]);
    Vec by = all(a.x_scale == nullptr ? 1.0f : a.x_scale[row]);
    if (a.weight_scale != nullptr) by = mul(by, load_part(a.weight_scale + column, kN));
    Vec value = mul(mul(load_part(wide, kN), by), all(a.factor));
    if (a.bias != nullptr) value = add(value, bias<kN>(column));
    if (a.dtype == KW_FLOAT32) return store_part(static_cast<float*>(a.y) + at, value, kN);
    if (a.dtype == KW_FLOAT16) return store_part(static_cast<Half*>(a.y) + at, value, kN);
    return store_part(static_cast<BFloat16*>(a.y) + at, value, kN);
  }

  // kM rows of x, kN of the weight.
  template <int kM, int kN>
  void plain_products(int64_t row, int64_t column, int32_t (&sums)[kM][kN]) const {
    for (int i = 0; i < kM; ++i) {
      const int8_t* const left = a.x + (row + i) * a.x_stride;
      for (int j = 0; j < kN; ++j) {
        const int8_t* const right = a.weight + (column + j) * a.weight_stride;
        int32_t total = 0;
        for (int64_t k = 0; k < a.k; ++k) total += static_cast<int16_t>(left[k]) * static_cast<int16_t>(right[k]);
        sums[i][j] = total;
      }
    }
  }

  template <bool kBytes, int kM, int kN>
  void tile(int64_t row, int64_t column, const int32_t* offsets) const {
    int32_t sums[kM][kN];
    if constexpr (kBytes) {
      byte_products<kM, kN>(a, row, column, offsets, sums);
    } else {
      plain_products<kM, kN>(row, column, sums);
    }
    for (int i = 0; i < kM; ++i) put<kN>(row + i, column, sums[i]);
  }

  template <bool kBytes, int kM, int kN>
  void rest(int64_t count, int64_t row, int64_t column, const int32_t* offsets) const {
    if (count >= kM) return tile<kBytes, kM, kN>(row, column, offsets);
    if constexpr (kM > 1) rest<kBytes, kM - 1, kN>(count, row, column, offsets);
  }

  // So many rows of x at most, from `row` on, with these of the weight.
  template <bool kBytes, int64_t kRows>
  void columns_of(int64_t row, int64_t rows, int64_t begin, int64_t end) const {
    constexpr int kM = kBytes ? 4 : 2;
    int32_t offsets[kRows];
    if constexpr (kBytes) {
      for (int64_t i = 0; i < rows; ++i) offsets[i] = offset_of_row(a.x + (row + i) * a.x_stride, a.k);
    }
    for (int64_t column = begin; column < end;) {
      const bool four = end - column >= kColumns;
      for (int64_t i = 0; i < rows; i += kM) {
        four ? rest<kBytes, kM, kColumns>(rows - i, row + i, column, offsets + i)
             : rest<kBytes, kM, 1>(rows - i, row + i, column, offsets + i);
      }
      column += four ? kColumns : 1;
    }
  }

  // So few columns at a time, if there are many rows, that they stay in the second cache.
  template <bool kBytes>
  void columns(int64_t begin, int64_t end) const {
    constexpr int64_t kRows = 32, kFewColumns = 32;
    const int64_t step = a.m <= kRows ? end - begin : kFewColumns;
    for (int64_t column = begin; column < end; column += step) {
      const int64_t last = end - column < step ? end : column + step;
      for (int64_t row = 0; row < a.m; row += kRows) {
        columns_of<kBytes, kRows>(row, a.m - row < kRows ? a.m - row : kRows, column, last);
      }
    }
  }
};

}  // namespace

void matmul_int8_columns(const void* context, int64_t begin, int64_t end) {
  const ByteProduct& a = *static_cast<const ByteProduct*>(context);
  const int64_t first = begin * kColumns, last = end * kColumns < a.n ? end * kColumns : a.n;
  Product{a}.columns<kByteProducts>(first, last);
}

}  // namespace KW_ISA

#if KW_CPU_BASELINE
// The copy for AVX-512 needs VNNI, which not all CPUs with AVX-512 have.
static Range copy_to_run() {
#if defined(__x86_64__)
  if (picked_matmul_int8_columns() == &avx512::matmul_int8_columns && !has_vnni()) return &avx2::matmul_int8_columns;
#endif
  return picked_matmul_int8_columns();
}

kw_status matmul_int8(const ByteProduct& args) {
  constexpr int64_t kProducts = 524288;  // fewer take this thread less than another takes to wake up
  const int64_t size = args.dtype == KW_FLOAT32 || args.dtype == KW_INT32 ? 4 : 2;
  will_write(args.y, args.m, args.y_stride, args.n * size, size);
  parallel_for((args.n + kColumns - 1) / kColumns, 1 + kProducts / (args.m * (args.k + 1) * kColumns), copy_to_run(),
               &args);
  return KW_OK;
}
#endif

}  // namespace kw::cpu
