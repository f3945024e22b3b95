// SPDX-License-Identifier: MIT
// A row into e4m3 by the threads of a block, which hold it in registers; of a longer row they read each piece a second
// time.
#pragma once

#include "device/ptx/sync.cuh"
#include "device/row_units.cuh"
#include "ops/fp8/device/e4m3.cuh"
#include "ops/fp8/params.h"
#include "ops/int8/params.h"

namespace kw {

// of / by, rounded once, in five instructions where the reciprocal is known: a product with that is wrong by two units
// at most, and each of two corrections by what is left, which is exact, mends one.
__device__ __forceinline__ float quotient(float of, float by, float reciprocal) {
  const float first = multiply_rounded(of, reciprocal), second = fmaf(-fmaf(first, by, -of), reciprocal, first);
  return fmaf(-fmaf(second, by, -of), reciprocal, second);
}

// What a row is divided by.
struct RowDivisor {
  float scale, reciprocal, up, scaled;
  bool plain;  // the scale is 1, infinite or NaN: a product gives what a division would

  __device__ __forceinline__ explicit RowDivisor(float absmax) {
    scale = absmax <= 3.4028235e38f ? quotient(absmax, 448.0f, 1.0f / 448.0f) : absmax;
    if (scale < 1.1754944e-38f) scale = 1.0f;
    plain = !(scale < 3.4028235e38f) || scale == 1.0f;
    // Rests of small numbers would be subnormal: 2^64 times all are not.
    up = scale < 1e-20f ? 1.8446744073709552e19f : 1.0f;
    scaled = multiply_rounded(scale, up);
    reciprocal = reciprocal_approx(scaled);
    if (!plain) reciprocal = fmaf(fmaf(-scaled, reciprocal, 1.0f), reciprocal, reciprocal);
  }

  __device__ __forceinline__ float divide(float value) const {
    const float of = multiply_rounded(value, up);
    const float size = plain ? multiply_rounded(of, reciprocal) : quotient(of, scaled, reciprocal);
    return float_of_bits((bits_of_float(size) & 0x7fffffffu) | (bits_of_float(value) & 0x80000000u));
  }
};

template <class T, u32 kUnits>
struct QuantizeRowFp8 : RowUnits<T, kUnits, false> {
  using Row = RowUnits<T, kUnits, false>;
  using Row::fetch, Row::kCount, Row::largest_of_units, Row::one_by_one, Row::row, Row::threads;
  const KwQuantizeRowsFp8Params& p;

  __device__ __forceinline__ QuantizeRowFp8(const KwQuantizeRowsFp8Params& p, RowScratch* scratch, i64 row)
      : Row(p.x + row * p.x_pitch, p.cols, p.vectors, scratch, row), p(p) {}

  __device__ __forceinline__ static u32 four_codes(const float* value, const RowDivisor& by) {
    const u32 low = e4m3_pair(by.divide(value[0]), by.divide(value[1]));
    return low | e4m3_pair(by.divide(value[2]), by.divide(value[3])) << 16;
  }

  __device__ __forceinline__ void write(u32 piece, const RowDivisor& by) {
    char* const to = p.codes + row * p.codes_pitch;
    one_by_one(piece, [&](const Unit<T, 16>& of, i64 at) {
      if (at >= p.cols) return;
      float value[kCount];
      u32 codes[2] = {};
      of.unpack(value);
      codes[0] = four_codes(value, by);
      if constexpr (kCount == 8) codes[1] = four_codes(value + 4, by);
      if (p.vectors) return store<kCount>(to + at, codes);
#pragma unroll 1
      for (u32 i = 0; i < kCount && at + i < p.cols; ++i) {
        store<1>(to + at + i, codes);
        codes[0] = codes[0] >> 8 | codes[1] << 24;
        codes[1] >>= 8;
      }
    });
  }

  // Once to measure and once to write: the code that reads a piece stands once.
  __device__ __forceinline__ void run() {
    const u32 pieces = Row::pieces();
    RowDivisor by(1.0f);
    u32 most = 0;
#pragma unroll 1
    for (u32 turn = 0; turn < 2 * pieces; ++turn) {
      const bool writes = turn >= pieces;
      const u32 piece = writes ? turn - pieces : turn;
      if (!writes || pieces > 1) fetch(piece);
      if (writes) {
        write(piece, by);
        continue;
      }
      const u32 here = largest_of_units();
      most = here > most ? here : most;
      if (piece + 1 < pieces) continue;
      by = RowDivisor(float_of_bits(threads.largest(most)));
      const u32 word[1] = {bits_of_float(by.scale)};
      if (threads.thread() == 0) store<4>(p.scale + row * 4, word);
    }
  }
};

template <class T, u32 kUnits>
__device__ __forceinline__ void quantize_rows_fp8(const KwQuantizeRowsFp8Params& p) {
  __shared__ RowScratch scratch;
  allow_next_kernel();
  wait_for_previous_kernel();
  QuantizeRowFp8<T, kUnits>(p, &scratch, blockIdx.x).run();
}

}  // namespace kw
