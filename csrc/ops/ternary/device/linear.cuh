// SPDX-License-Identifier: MIT
// Rows of x that a block quantizes itself, in quantize_rows_int8's order of additions: all warps measure the rows, then
// make codes on their way to shared memory. Each block does so for all of x, which is little beside the weight.
#pragma once

#include "ops/int8/device/row_codes.cuh"
#include "ops/ternary/device/few.cuh"

#if defined(KW_HAS_INT8_MMA) && defined(KW_HAS_CP_ASYNC)

namespace kw {

template <class T>
struct TernaryFloatRows {
  static constexpr u32 kCount = 16 / T::kSize, kUnroll = 1;
  const KwLinearTernaryParams& p;
  u32 room;  // shared memory: of each row squares of 32 warps, largest sizes of 32 warps, factor, mask, absmax

  __device__ __forceinline__ u32 of_row(u32 row) const { return room + row * KW_LINEAR_TERNARY_ROW; }

  // A unit of a row, as it is.
  __device__ __forceinline__ void fetch(u32 row, i64 at, float (&value)[kCount]) const {
    Unit<T, 16> unit;
    load_unit(p.few.x + row * p.few.x_pitch, at, p.few.k, p.few.vectors != 0, unit);
    unit.unpack(value);
  }

  __device__ __forceinline__ void times_weight(i64 at, float (&value)[kCount]) const {
    if (p.weight == nullptr) return;
    RowWeight<T>{p.weight, p.few.k, p.weight_vectors, p.weight_is_float}.multiply_in_loops(at, value);
  }

  // What the warp `part` of quantize_rows_int8's would find.
  __device__ __forceinline__ void measure(u32 row, u32 part) const {
    const u32 lane = threadIdx.x % kWarp;
    u32 most[1] = {0};
    float squares = 0.0f;
#pragma unroll 1
    for (i64 at = (part * kWarp + lane) * i64{kCount}; at < p.few.k; at += p.warps * i64{kWarp * kCount}) {
      float value[kCount];
      fetch(row, at, value);
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) squares = fmaf(value[i], value[i], squares);
      times_weight(at, value);
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) most[0] = larger_size(most[0], bits_of_float(value[i]));
    }
    most[0] = largest_of_lanes(most[0], kWarp);
    const u32 sum[1] = {bits_of_float(warp_sum(squares))};
    if (lane != 0) return;
    store_shared<4>(of_row(row) + part * 4, sum);
    store_shared<4>(of_row(row) + (kWarp + part) * 4, most);
  }

  // block_sum() of what was measured.
  __device__ __forceinline__ float sum_of_parts(u32 row) const {
    const u32 quads = p.warps <= 4 ? 1 : p.warps <= 8 ? 2 : p.warps <= 16 ? 4 : 8;
    const u32 quad = threadIdx.x % kWarp & (quads - 1);
    float part[4];
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      u32 word[1] = {0};
      if (quad * 4 + i < p.warps) load_shared<4>(of_row(row) + (quad * 4 + i) * 4, word);
      part[i] = float_of_bits(word[0]);
    }
    float value = (part[0] + part[1]) + (part[2] + part[3]);
#pragma unroll
    for (u32 mask = 1; mask < kMaxWarps / 4; mask *= 2) {
      const float other = shuffle_xor(value, mask);
      if (mask < quads) value += other;
    }
    return value;
  }

  // From what warps found to the row's factors.
  __device__ __forceinline__ void settle(u32 row) const {
    const u32 lane = threadIdx.x % kWarp;
    u32 most[1] = {0};
    if (lane < p.warps) load_shared<4>(of_row(row) + (kWarp + lane) * 4, most);
    most[0] = largest_of_lanes(most[0], kWarp);
    const float squares = sum_of_parts(row), rstd = p.eps >= 0.0f ? rstd_of(squares, p.few.k, p.eps) : 1.0f;
    const float absmax = absmax_of(most[0], rstd, p.clamp);
    const u32 factors[4] = {bits_of_float(factor_of(absmax, rstd)), kept_of(bits_of_float(absmax)),
                            bits_of_float(absmax), 0};
    if (lane == 0) store_shared<16>(of_row(row) + KW_LINEAR_TERNARY_FACTORS, factors);
  }

  template <u32 kWarps>
  __device__ __forceinline__ void prepare(u32 behind) {
    room = behind;
    const u32 warp = threadIdx.x / kWarp;
#pragma unroll 1
    for (u32 i = warp; i < p.few.end.m * p.warps; i += kWarps) measure(i / p.warps, i % p.warps);
    __syncthreads();
#pragma unroll 1
    for (u32 row = warp; row < p.few.end.m; row += kWarps) settle(row);
    __syncthreads();
  }

  // 16 codes; what is past the end of x is 0. A unit after the other, in code that stands once: words move along.
  __device__ __forceinline__ void piece(u32 row, u32 k, u32 (&word)[4]) const {
    constexpr u32 kNew = kCount / 4;
    u32 factors[4];
    load_shared<16>(of_row(row) + KW_LINEAR_TERNARY_FACTORS, factors);
#pragma unroll
    for (u32 i = 0; i < 4; ++i) word[i] = 0;
#pragma unroll 1
    for (u32 i = 0; i < 16; i += kCount) {
      float value[kCount];
      fetch(row, k + i, value);
      times_weight(k + i, value);
#pragma unroll
      for (u32 j = 0; j + kNew < 4; ++j) word[j] = word[j + kNew];
#pragma unroll
      for (u32 j = 0; j < kNew; ++j) {
        word[4 - kNew + j] = four_codes(value + j * 4, float_of_bits(factors[0])) & factors[1];
      }
    }
  }

  // Rounded, and again after the residual, as two operators would.
  __device__ __forceinline__ void put(u32 row, u32 column, int sum) const {
    const KwTernaryEnd& end = p.few.end;
    u32 absmax[1];
    load_shared<4>(of_row(row) + KW_LINEAR_TERNARY_FACTORS + 8, absmax);
    const float row_scale = float_of_bits(absmax[0]) * (1.0f / 127.0f);
    Unit<T, T::kSize> one, added;
    float value[1] = {ternary_value(sum, row_scale, ternary_column_scale(end, column), ternary_bias(end, column))};
    one.pack(value);
    if (p.residual != nullptr) {
      float other[1];
      load<T::kSize>(p.residual + row * p.residual_pitch + column * u64{T::kSize}, added.word);
      one.unpack(value);
      added.unpack(other);
      value[0] = add_rounded(value[0], other[0]);
      one.pack(value);
    }
    store<T::kSize>(end.y + row * end.y_pitch + column * u64{T::kSize}, one.word);
  }
};

}  // namespace kw

#endif
