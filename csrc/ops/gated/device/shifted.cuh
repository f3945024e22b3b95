// SPDX-License-Identifier: MIT
// Rows that lie unequally far off 16 bytes, such as the halves of a packed tensor of odd width. The units are those of
// the result; what a unit needs of an input is cut out of the two aligned vectors around it.
#pragma once

#include "device/ptx/sync.cuh"
#include "ops/gated/device/unit.cuh"

namespace kw {

__device__ __forceinline__ u32 off_vector(const char* address) {
  return static_cast<u32>(reinterpret_cast<u64>(address)) & 15u;
}

// Whether the aligned vectors around the 16 bytes at `column` hold nothing but the row's own elements.
template <class T>
__device__ __forceinline__ bool surrounded(const char* row, i64 column, i64 cols) {
  const u32 off = off_vector(row + column * T::kSize);
  if (off == 0) return true;
  const i64 before = off / T::kSize, after = (32 - off) / T::kSize;
  return column >= before && column + after <= cols;
}

// The 16 bytes at an element's address.
template <class T>
__device__ __forceinline__ void load_shifted(const char* from, u64 policy, u32 (&word)[4]) {
  const u32 off = off_vector(from);
  u32 w[8] = {};
  load_vector(from - off, w, policy);
  if (off != 0) load_vector(from - off + 16, w + 4, policy);
#pragma unroll
  for (int i = 0; i < 6; ++i) w[i] = off & 8u ? w[i + 2] : w[i];
#pragma unroll
  for (int i = 0; i < 5; ++i) w[i] = off & 4u ? w[i + 1] : w[i];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const u64 pair = static_cast<u64>(w[i + 1]) << 32 | w[i];
    word[i] = T::kSize == 4 ? w[i] : static_cast<u32>(pair >> (off & 2u) * 8);
  }
}

template <class T>
__device__ __forceinline__ void store_shifted(char* to, const Unit<T, 16>& unit) {
  if (off_vector(to) == 0) return store<16>(to, unit.word);
#pragma unroll
  for (int i = 0; i < Unit<T, 16>::kCount; ++i) {
    const u32 element = unit.word[i * T::kSize / 4] >> (i * T::kSize % 4 * 8);
    store<T::kSize>(to + i * T::kSize, &element);
  }
}

// What there is of a unit at the ends of a row: all of it is under way before any of it is computed.
template <class T, bool kBackward>
__device__ __forceinline__ void swiglu_end(const KwSwigluParams& p, u32 row, i64 column) {
  constexpr int kCount = 16 / T::kSize;
  SwigluUnit<T, T::kSize, kBackward> in[kCount];
  auto has = [&](int i) { return column + i >= 0 && column + i < p.cols; };
  auto place = [&](int i) { return SwigluPlace(p, row, (column + i) * T::kSize); };
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (has(i)) in[i].read(place(i), 0);
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (has(i)) in[i].write(place(i));
  }
}

template <class T, bool kBackward>
__device__ __forceinline__ void swiglu_shifted(const KwSwigluParams& p) {
  constexpr i64 kCount = 16 / T::kSize;
  allow_next_kernel();
  wait_for_previous_kernel();
  const u32 number = blockIdx.x * blockDim.x + threadIdx.x;
  if (number >= p.units) return;
  const u32 row = row_of_unit(p, number);
  const SwigluPlace begin(p, row, 0);
  const i64 column = (number - row * p.row_units) * kCount - off_vector(begin.out) / T::kSize;
  const bool whole = column >= 0 && column + kCount <= p.cols && surrounded<T>(begin.gate, column, p.cols) &&
                     surrounded<T>(begin.up, column, p.cols) && (!kBackward || surrounded<T>(begin.dy, column, p.cols));
  if (!whole) return swiglu_end<T, kBackward>(p, row, column);

  const u64 policy = l2_policy(p.large);
  const SwigluPlace at(p, row, column * T::kSize);
  SwigluUnit<T, 16, kBackward> in;
  load_shifted<T>(at.gate, policy, in.gate.word);
  load_shifted<T>(at.up, policy, in.up.word);
  if constexpr (kBackward) load_shifted<T>(at.dy, policy, in.dy.word);
  in.compute();
  store<16>(at.out, in.gate.word);
  if constexpr (kBackward) store_shifted<T>(at.up_out, in.up);
}

}  // namespace kw
