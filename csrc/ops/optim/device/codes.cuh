// SPDX-License-Identifier: MIT
// A map of 256 values and the table of its codes in shared memory, and what kernels do with blocks of codes.
#pragma once

#include "device/units.cuh"
#include "ops/optim/code_table.h"

namespace kw {

__device__ __forceinline__ float load_float(const char* from) {
  u32 word[1];
  load<4>(from, word);
  return float_of_bits(word[0]);
}

// The codes of a unit: bytes as they lie in memory.
struct Code {
  static constexpr int kSize = 1;
};

struct CodeTable {
  u32 bound[256];
  u32 entry[kCodeBuckets];

  // All threads of the block call it; what they read of it comes after a barrier of theirs.
  __device__ __forceinline__ void fill(const char* map, const CodeShape& shape) {
    for (u32 i = threadIdx.x; i < 256; i += blockDim.x) {
      const float here = load_float(map + i * 4), next = load_float(map + (i < 255 ? i + 1 : i) * 4);
      bound[i] = i < 255 ? code_bound(bits_of_float((here + next) * 0.5f), i, here == next) : 0x7f800000u;
    }
    __syncthreads();
    const u32 count = shape.both ? 2 * shape.size : shape.size;
    for (u32 i = threadIdx.x; i < count; i += blockDim.x) entry[i] = code_entry(shape, bound, i);
  }

  // The codes of scaled values, as they lie in memory. Those of buckets with several bounds are searched afterwards,
  // one by one: so the search stands once in the code.
  template <int kCount>
  __device__ __forceinline__ void codes(const CodeShape& shape, const float (&scaled)[kCount],
                                        Unit<Code, kCount>& to) const {
    u32 searched = 0;
    to.clear();
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const u32 bits = bits_of_float(scaled[i]), at = entry[code_bucket(shape, bits)];
      to.word[i / 4] |= code_in(shape, at, bits) << (i % 4 * 8);
      if (at & kCodeSearch && (bits & 0x7fffffffu) <= 0x7f800000u) searched |= 1u << i;
    }
    if (searched == 0) return;
#pragma unroll 1
    for (int i = 0; i < kCount; ++i) {
      if ((searched >> i & 1) == 0) continue;
      float value = scaled[0];
#pragma unroll
      for (int j = 1; j < kCount; ++j) value = i == j ? scaled[j] : value;
      const u32 code = code_searched(bound, bits_of_float(value)) << (i % 4 * 8);
#pragma unroll
      for (int word = 0; word < kCount / 4; ++word) to.word[word] |= i / 4 == word ? code : 0;
    }
  }
};

// Whether a map has values below 0: its first is the smallest.
__device__ __forceinline__ CodeShape shape_of_map(const char* map) { return code_shape(load_float(map) < 0.0f); }

// A scale's bits from those of the largest size. A subnormal one is 0: bitsandbytes flushes those.
__device__ __forceinline__ u32 scale_bits(u32 most) { return most < 0x00800000u ? 0 : most; }

}  // namespace kw
