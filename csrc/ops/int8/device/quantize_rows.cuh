// SPDX-License-Identifier: MIT
// A row into 8-bit integers by the threads of a warp or of a block, which hold it in registers; of a longer row they
// read each piece a second time.
#pragma once

#include "device/ptx/dot.cuh"
#include "device/ptx/sync.cuh"
#include "device/row_units.cuh"
#include "ops/int8/device/row_codes.cuh"
#include "ops/int8/params.h"

namespace kw {

struct Int8 {
  static constexpr int kSize = 1;
};

template <class T, u32 kUnits, bool kWarpOnly>
struct QuantizeRow : RowUnits<T, kUnits, kWarpOnly> {
  using Row = RowUnits<T, kUnits, kWarpOnly>;
  using Row::element, Row::fetch, Row::kCount, Row::largest_of_units, Row::one_by_one, Row::row, Row::threads,
      Row::unit;
  const KwQuantizeRowsParams& p;

  __device__ __forceinline__ QuantizeRow(const KwQuantizeRowsParams& p, RowScratch* scratch, i64 row)
      : Row(p.x + row * p.x_pitch, p.cols, p.vectors, scratch, row), p(p) {}

  // Whether rows are plain: what else there is to do is done to one unit after the other, in code that stands once.
  __device__ __forceinline__ bool plain() const { return p.vectors && p.eps < 0.0f; }

  // The elements of a unit, times the weight.
  __device__ __forceinline__ void values(const Unit<T, 16>& of, i64 at, float (&value)[kCount]) const {
    of.unpack(value);
    if (p.weight == nullptr) return;
    RowWeight<T>{p.weight, p.cols, p.weight_vectors, p.weight_is_float}.multiply(at, value);
  }

  // Outliers become 0, and their columns are told. They are rare; a NaN may hide some.
  __device__ __forceinline__ void cut(Unit<T, 16>& of, i64 at) const {
    if (float_of_bits(largest_of_unit(of)) < p.threshold) return;
    float value[kCount];
    of.unpack(value);
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) {
      if (!(fabsf(value[i]) >= p.threshold)) continue;
      const u32 yes[1] = {1};
      store<1>(p.outliers + at + i, yes);
      value[i] = 0.0f;
    }
    of.pack(value);
  }

  // The largest size among the thread's elements, and the sum of the squares.
  __device__ __forceinline__ void measure(u32 piece, u32& most, float& squares) {
    if (plain()) {
      u32 here = largest_of_units();
      if (p.threshold > 0.0f && !(float_of_bits(here) < p.threshold)) {
        one_by_one(piece, [&](Unit<T, 16>& of, i64 at) { cut(of, at); });
        here = largest_of_units();
      }
      most = here > most ? here : most;
      return;
    }
    one_by_one(piece, [&](Unit<T, 16>& of, i64 at) {
      if (p.threshold > 0.0f) cut(of, at);
      float value[kCount];
      of.unpack(value);
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) squares = fmaf(value[i], value[i], squares);
      values(of, at, value);
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) most = larger_size(most, bits_of_float(value[i]));
    });
  }

  __device__ __forceinline__ static void round_all(const float (&value)[kCount], float by, u32 kept,
                                                   Unit<Int8, kCount>& codes) {
#pragma unroll
    for (u32 i = 0; i < kCount; i += 4) codes.word[i / 4] = four_codes(value + i, by) & kept;
  }

  __device__ __forceinline__ static int sum_of(const Unit<Int8, kCount>& codes) {
    int sum = 0;
#pragma unroll
    for (u32 i = 0; i < kCount / 4; ++i) sum = dot4(codes.word[i], 0x01010101u, sum);
    return sum;
  }

  // Codes of outliers' columns are 0: of such a column the byte is 1.
  __device__ __forceinline__ void mask(i64 at, Unit<Int8, kCount>& codes) const {
    if (p.phase != KW_QUANTIZE_ROWS_WRITE) return;
    Unit<Int8, kCount> columns;
    columns.clear();
    load_unit(p.outliers, at, p.cols, p.vectors != 0, columns);
#pragma unroll
    for (u32 i = 0; i < kCount / 4; ++i) codes.word[i] &= ~(columns.word[i] * 255u);
  }

  __device__ __forceinline__ int write(u32 piece, float by, u32 kept) {
    char* const to = p.codes + row * p.codes_pitch;
    int sum = 0;
    Unit<Int8, kCount> codes;
    float value[kCount];
    if (plain()) {
#pragma unroll
      for (u32 i = 0; i < kUnits; ++i) {
        const i64 at = element(piece, i);
        unit[i].unpack(value);
        round_all(value, by, kept, codes);
        mask(at, codes);
        if (at < p.cols) store<kCount>(to + at, codes.word);
        sum += sum_of(codes);
      }
      return sum;
    }
    one_by_one(piece, [&](Unit<T, 16>& of, i64 at) {
      values(of, at, value);
      round_all(value, by, kept, codes);
      mask(at, codes);
      store_unit(to, at, p.cols, p.vectors != 0, codes);
      sum += sum_of(codes);
    });
    return sum;
  }

  __device__ __forceinline__ float found_absmax(u32 pieces, float& rstd) {
    u32 most = 0;
    float squares = 0.0f;
#pragma unroll 1
    for (u32 piece = 0; piece < pieces; ++piece) {
      fetch(piece);
      measure(piece, most, squares);
    }
    if (p.eps >= 0.0f) rstd = rstd_of(threads.sum(squares), p.cols, p.eps);
    return absmax_of(threads.largest(most), rstd, p.clamp);
  }

  // Pieces of a row that registers have not kept.
  __device__ __forceinline__ void fetch_again(u32 piece) {
    fetch(piece);
    if (p.threshold > 0.0f && p.phase != KW_QUANTIZE_ROWS_WRITE) {
      one_by_one(piece, [&](Unit<T, 16>& of, i64 at) { cut(of, at); });
    }
  }

  __device__ __forceinline__ void run() {
    const u32 pieces = Row::pieces();
    const bool writes = p.phase == KW_QUANTIZE_ROWS_WRITE, first = threads.thread() == 0;
    float rstd = 1.0f, absmax;
    u32 word[1];
    if (writes) {
      load<4>(p.absmax + row * 4, word);
      absmax = float_of_bits(word[0]);
    } else {
      absmax = found_absmax(pieces, rstd);
      word[0] = bits_of_float(absmax);
      if (first) store<4>(p.absmax + row * 4, word);
      if (p.phase == KW_QUANTIZE_ROWS_MEASURE) return;
    }
    const u32 kept = kept_of(word[0]);
    const float by = factor_of(absmax, rstd);
    int sum = 0;
#pragma unroll 1
    for (u32 piece = 0; piece < pieces; ++piece) {
      if (pieces > 1 || writes) fetch_again(piece);
      sum += write(piece, by, kept);
    }
    if (p.sums == nullptr) return;
    const u32 total[1] = {static_cast<u32>(threads.total(sum))};
    if (first) store<4>(p.sums + row * 4, total);
  }
};

template <class T>
__device__ __forceinline__ void quantize_rows_by_warps(const KwQuantizeRowsParams& p) {
  allow_next_kernel();
  wait_for_previous_kernel();
  const i64 row = static_cast<i64>(blockIdx.x) * KW_QUANTIZE_ROWS_WARPS + threadIdx.x / kWarp;
  if (row < p.rows) QuantizeRow<T, KW_QUANTIZE_ROWS_UNITS, true>(p, nullptr, row).run();
}

template <class T, u32 kUnits>
__device__ __forceinline__ void quantize_rows_by_blocks(const KwQuantizeRowsParams& p) {
  __shared__ RowScratch scratch;
  allow_next_kernel();
  wait_for_previous_kernel();
  QuantizeRow<T, kUnits, false>(p, &scratch, blockIdx.x).run();
}

// No column is an outlier yet.
__device__ __forceinline__ void clear_outliers(const KwQuantizeRowsParams& p) {
  allow_next_kernel();
  wait_for_previous_kernel();
  const i64 column = static_cast<i64>(blockIdx.x) * KW_QUANTIZE_ROWS_THREADS + threadIdx.x;
  const u32 no[1] = {0};
  if (column < p.cols) store<1>(p.outliers + column, no);
}

}  // namespace kw
