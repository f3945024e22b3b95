// SPDX-License-Identifier: MIT
// The bounds between codes as csrc/ops/four_bit/quantize_4bit.cu looks them up.
#pragma once

#include <math.h>

#include "ops/four_bit/geometry.h"
#include "ops/four_bit/host/launch.h"

namespace kw::quantize_4bit_plan {

constexpr int64_t kUnits = int64_t{kQuantizeRows} * kQuantizeThreads;  // of 16 bytes that a block takes at once

constexpr float kNf4Bounds[] = {KW_NF4_BOUNDS};
constexpr float kFp4Bounds[] = {KW_FP4_BOUNDS};
constexpr unsigned kFp4Codes[] = {KW_FP4_CODES};

// The bucket of a value, computed as the kernels do: rounded to the nearest integer, of two to the even one.
inline int bucket_of(float value) {
  const float sum = 16.0f + 8388608.0f;
  return static_cast<int>(__builtin_fmaf(value, -15.25f, sum) - 8388608.0f);
}

// The buckets go down as values go up.
inline void fill_buckets(const float* bounds, int count, KwQuantize4bitParams* p) {
  for (int bucket = 0; bucket < 32; ++bucket) {
    p->bound[bucket] = __builtin_inff();
    p->below[bucket] = 0;
    for (int i = 0; i < count; ++i) {
      const int of = bucket_of(bounds[i]);
      if (of == bucket) p->bound[bucket] = bounds[i];
      if (of > bucket) ++p->below[bucket];
    }
  }
  p->below[0] = 0;  // no value's, but where a NaN ends up
}

inline KwQuantize4bitParams params_of(const Quantize4bit& a) {
  KwQuantize4bitParams p{};
  p.packed = static_cast<char*>(static_cast<void*>(a.packed));
  p.absmax = static_cast<char*>(static_cast<void*>(a.absmax));
  p.x = static_cast<const char*>(a.x);
  p.count = a.count;
  p.block_log2 = log2_of(a.blocksize);
  p.aligned = aligned_to(a.x, kVectorBytes) && aligned_to(a.packed, 4);
  if (a.quant_type == KW_NF4) {
    p.kept = 0xffffffffu;
    fill_buckets(kNf4Bounds, 15, &p);
  } else {
    p.kept = 0x7fffffffu;
    fill_buckets(kFp4Bounds, 7, &p);
    for (int i = 0; i < 8; ++i) p.order |= kFp4Codes[i] << (4 * i);
  }
  return p;
}

// A warp has a span of kUnits / 4 units, or a whole block of elements where that is longer; then others, since no more
// blocks of threads are launched than there is room for: what each looks up first costs a tenth of its work.
inline int64_t blocks_of(const Quantize4bit& a, const Device& device) {
  const int64_t units = kVectorBytes / (a.dtype == KW_FLOAT32 ? 4 : 2) * kUnits;
  const int64_t longest = int64_t{a.blocksize} * (kQuantizeThreads / 32);
  const int64_t wanted = ratio_up(a.count, units > longest ? units : longest);
  const int64_t room = int64_t{device.multiprocessors} * kQuantizeBlocks;
  return wanted < room ? wanted : room;
}

}  // namespace kw::quantize_4bit_plan
