// SPDX-License-Identifier: MIT
// Rows as runs of units (params.h) that lie equally far off 16 bytes in all tensors. A thread reads all of its
// units before it computes, and writes each where it read it: results may take the place of inputs.
#pragma once

#include "device/ptx/sync.cuh"
#include "ops/gated/device/unit.cuh"

namespace kw {

// What a row has of its unit number `unit`, one by one.
template <class T, int kBytes, bool kBackward>
__device__ __forceinline__ void swiglu_part(const KwSwigluParams& p, u32 row, u32 unit) {
  constexpr i64 kCount = kBytes / T::kSize;
  i64 column = unit * kCount - p.skip;
  const i64 end = column + kCount < p.cols ? column + kCount : p.cols;
#pragma unroll 1
  for (column = column < 0 ? 0 : column; column < end; ++column) {
    const SwigluPlace at(p, row, (column + p.skip) * T::kSize);
    SwigluUnit<T, T::kSize, kBackward> element;
    element.read(at, 0);
    element.write(at);
  }
}

// kRows: there may be several rows.
template <class T, int kBytes, bool kRows, bool kBackward, int kSlots>
__device__ __forceinline__ void swiglu_run(const KwSwigluParams& p) {
  allow_next_kernel();
  wait_for_previous_kernel();
  // A warp's units lie together: memory is faster in longer runs.
  const u32 warp = blockIdx.x * (blockDim.x / kSwigluWarp) + threadIdx.x / kSwigluWarp;
  const u32 first = warp * (kSwigluWarp * p.slots) + threadIdx.x % kSwigluWarp;
  auto row_of = [&](u32 number) { return kRows ? row_of_unit(p, number) : 0; };
  auto place = [&](int slot) {
    const u32 number = first + slot * kSwigluWarp, row = row_of(number);
    return SwigluPlace(p, row, static_cast<i64>(number - row * p.row_units) * kBytes);
  };
  auto whole = [&](int slot) {
    const u32 number = first + slot * kSwigluWarp, unit = number - row_of(number) * p.row_units;
    return slot < p.slots && number < p.units && (kBytes == T::kSize || (unit >= p.first_whole && unit < p.end_whole));
  };

  const u64 policy = l2_policy(p.large);
  SwigluUnit<T, kBytes, kBackward> in[kSlots];
#pragma unroll
  for (int s = 0; s < kSlots; ++s) {
    if (whole(s)) in[s].read(place(s), policy);
  }
#pragma unroll
  for (int s = 0; s < kSlots; ++s) {
    if (whole(s)) in[s].write(place(s));
  }

  if constexpr (kBytes > T::kSize) {
    if (p.first_whole == 0 && p.end_whole == p.row_units) return;
#pragma unroll 1
    for (int s = 0; s < p.slots; ++s) {
      const u32 number = first + s * kSwigluWarp, row = row_of(number), unit = number - row * p.row_units;
      if (number >= p.units) return;
      if (unit < p.first_whole || unit >= p.end_whole) swiglu_part<T, kBytes, kBackward>(p, row, unit);
    }
  }
}

}  // namespace kw
