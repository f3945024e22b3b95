// SPDX-License-Identifier: MIT
// The scales of 4-bit blocks, as floats or quantized themselves. Reading one is cut in two, so that what a thread reads
// next is on its way while it works.
#pragma once

#include "device/element.cuh"
#include "device/ptx/hints.cuh"
#include "device/ptx/math.cuh"
#include "device/ptx/memory.cuh"
#include "device/types.cuh"
#include "ops/four_bit/params.h"

namespace kw {

constexpr int kScalesLog2 = 8;  // scales a block of the second quantization, as a power of two

__device__ __forceinline__ float load_float(const char* from) {
  u32 word[1];
  load<4>(from, word);
  return float_of_bits(word[0]);
}

template <class T>
__device__ __forceinline__ float load_element(const char* from) {
  Unit<T, T::kSize> unit;
  float value[1];
  load<T::kSize>(from, unit.word);
  unit.unpack(value);
  return value[0];
}

// The part that a block is in, and a block of another size where `shift` counts those.
__device__ __forceinline__ u32 part_of(const KwScales4bit& of, u32 block, int shift) {
  return static_cast<u32>(static_cast<u64>(block) * of.part_magic >> 32) >> shift;
}

// Where a weight has one part that is the first block's, too.
__device__ __forceinline__ float offset_of(const KwScales4bit& of, u32 block) {
  return load_float(of.offset + part_of(of, block, of.part_shift) * u64{4});
}

// On its way: the scale's bits, or its code.
struct Scale4bit {
  u32 word = 0;

  __device__ __forceinline__ void fetch(const KwScales4bit& of, i64 block) {
    u32 found[1];
    if (of.absmax != nullptr) {
      load<4>(of.absmax + block * 4, found);
    } else {
      load<1>(of.codes + block, found);
    }
    word = found[0];
  }

  __device__ __forceinline__ void prefetch(const KwScales4bit& of, i64 block) const {
    kw::prefetch(of.absmax != nullptr ? of.absmax + block * 4 : of.codes + block);
  }

  // Rounded after each step, as bitsandbytes does, which has a kernel for each. The map, the scales of the codes and
  // the parts' offsets are few, and near.
  __device__ __forceinline__ float get(const KwScales4bit& of, i64 block) const {
    if (of.absmax != nullptr) return float_of_bits(word);
    const float by = load_float(of.absmax2 + (block >> kScalesLog2) * 4);
    const float offset = offset_of(of, static_cast<u32>(block));
    return add_rounded(multiply_rounded(load_float(of.map + word * 4), by), offset);
  }
};

}  // namespace kw
